#!/bin/bash
# A fine-tuning from a launch script.
torchrun --nproc_per_node=4 --nnodes 2 train.py /data/imagenet --model vit_base_patch16_224.mae -b 128 -j 8 \
  --initial-checkpoint "mae weights.pth" --opt adamw --lr-base 5e-4 --lr-base-size 256 --weight-decay 0.05 --layer-decay .65 \
  --sched cosine --epochs 100 --warmup-epochs 5 --min-lr 1e-6 --aa rand-m9-mstd0.5-inc1 --scale .2 1 --opt-betas 0.9 0.95 \
  --mixup .8 --cutmix 1.0 --drop-path 0.1 --reprob .25 --amp --gp avg
