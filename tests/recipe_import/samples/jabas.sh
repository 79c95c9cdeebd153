# T2T-ViT on JABAS: every flag of its main.py.
python main.py --model t2t_vit_14 --local-batch-size 32 --num-models 3 --accum-step 1 --weight-sync-method recommend \
  --jabas-config-file example.json --elastic-checkpoint-dir ckpt --is-elastic-training --world-size 2 --rank 0 \
  --dist-url tcp://node0:22201 --dist-backend nccl --gpu 0 --num-gpu 1 --local_rank 0 --checkpoint-path ckpt --no-validate \
  --lr 0.0005 --weight-decay .05 --img-size 224 --epochs 90 --data-dir imagenet --num-classes 1000 --gp token --crop-pct 0.9 \
  --mean 0.485 0.456 0.406 --std 0.229 0.224 0.225 --interpolation bicubic --validation-batch-size-multiplier 1 --opt adamw \
  --opt-eps 1e-8 --opt-betas 0.9 0.999 --momentum 0.9 --sched cosine --lr-noise-pct 0.67 --lr-noise-std 1.0 --lr-cycle-mul 1.0 \
  --lr-cycle-limit 1 --warmup-lr 1e-6 --min-lr 1e-5 --decay-epochs 30 --warmup-epochs 10 --cooldown-epochs 10 \
  --patience-epochs 10 --decay-rate 0.1 --scale 0.08 1.0 --ratio 0.75 1.3333333 --hflip 0.5 --vflip 0. --color-jitter 0.4 \
  --aa rand-m9-mstd0.5-inc1 --aug-splits 0 --reprob 0.25 --remode pixel --recount 1 --mixup 0.8 --cutmix 1.0 --mixup-prob 1.0 \
  --mixup-switch-prob 0.5 --mixup-mode batch --mixup-off-epoch 0 --smoothing 0.1 --train-interpolation random --drop 0.0 \
  --drop-path 0.1 --dist-bn '' --model-ema --model-ema-decay 0.99996 --seed 42 --log-interval 10 --recovery-interval 0 -j 4 \
  --eval-metric top1 --tta 0 --output runs --pin-mem --use-multi-epochs-loader
