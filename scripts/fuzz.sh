#!/usr/bin/env bash
# Fuzzes the parsers with coverage feedback (libFuzzer). New inputs are kept below target/fuzz/corpus/.
#   scripts/fuzz.sh                     every target for 60 s
#   scripts/fuzz.sh --seconds 900 packet zone_text
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=60
targets=()
while (($#)); do
  case $1 in
    --seconds) seconds=${2:?--seconds takes a number}; shift 2 ;;
    -h | --help) sed -n '2,4s/^# //p' "$0"; exit 0 ;;
    *) targets+=("$1"); shift ;;
  esac
done
((${#targets[@]})) || targets=(packet zone_text isp_text config peer)

declare -A home=([packet]=dns [zone_text]=dns [isp_text]=config [config]=config [peer]=peer)

# coverage counters on all code; the flags are stable rustc's
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
triple=$(rustc -vV | sed -n 's/^host: //p') # named, so that build scripts are built without counters
# shellcheck disable=SC2046
cargo build --release --target "$triple" --manifest-path fuzz/Cargo.toml --target-dir target/fuzz $(printf -- '--bin %s ' "${targets[@]}")

for target in "${targets[@]}"; do
  found=target/fuzz/corpus/$target
  mkdir -p "$found" target/fuzz/findings
  echo "== $target for $seconds s"
  "target/fuzz/$triple/release/$target" "$found" "${home[$target]}/fuzz/corpus/$target" \
    -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="target/fuzz/findings/$target-" -verbosity=0
done
