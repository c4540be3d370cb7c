# Compares what the agent left with the hidden answer, a JSON text.
answer=$(cat sorted.txt 2>/dev/null)
target=$(printf '%b' "$(sed 's/^"//; s/"$//' "$AGENTLAB_TARGET_PATH")")
if [ "$answer" = "$target" ]; then verdict=pass; else verdict=fail; fi
echo "{\"verdict\": \"$verdict\"}" > "$AGENTLAB_BENCHMARK_SCORE_PATH"
