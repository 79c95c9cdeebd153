A="--lr $LR"; B=(a "b c")
for lr in {1..3} $(seq 1 2 5); do
  srun a ${B[@]} ${C:-${A}} > log 2>&1 <<EOF
x
EOF
done
