#!/usr/bin/env bash
# What gave the files of this folder: commands.sh ETVK MODELS OUT, with the two programs unpacked in MODELS.
set -u
etvk=$1 models=$2 out=$3
passes=(identity_views repeated_writes rms_norm rotary heads residual windows joined_linears epilogues prologues)
for model in llama32_1b gemma4_e2b; do
    bench=("$etvk" bench "$models/${model}_4w_g32_fp16.pte" --pipeline-cache "$out/pipelines.$model")
    "${bench[@]}" --pp 512,2047 --tg 128 --depth 0,1900 --reps 5 --commit repeated_writes --json "$out/$model.jsonl"
    for ((first = 0; first < ${#passes[@]}; first++)); do
        without=$(IFS=,; echo "${passes[*]:first}")
        "${bench[@]}" --pp 512 --tg 64 --depth 0 --reps 3 --without "$without" --commit repeated_writes --json "$out/part.json"
        # The first pass that was left out and all after it, put into each line.
        sed "s/\"commit\"/\"without\":\"$without\",\"commit\"/" "$out/part.json" >>"$out/$model.passes.jsonl"
    done
    "${bench[@]}" --pp 512,2047 --tg 64 --depth 0,1900 --reps 2 --kernels >"$out/$model.txt"
done
