#!/bin/sh
# generate_test.sh PROGRAM: runs the example on SmolLM2; exit code 77 (skipped) where the model is not there.
program=$1
model=models/SmolLM2-135M-Instruct.Q4_1.gguf
if [ ! -f "$model" ]; then
  echo "skipped: $model is not there; scripts/fetch_model.sh smollm2 fetches it"
  exit 77
fi

answer=$("$program" "$model" "The capital of France is" 8) || exit 1
echo "$answer"
case $answer in
  *Paris*) ;;
  *) echo "expected an answer that names Paris"; exit 1 ;;
esac

# Bad input ends with a message and exit code 1 or 2.
"$program" "$model" >/dev/null 2>&1
[ $? -eq 2 ] || { echo "expected exit code 2 without a prompt"; exit 1; }
"$program" /dev/null "text" >/dev/null 2>&1
[ $? -eq 1 ] || { echo "expected exit code 1 for an empty model"; exit 1; }
