# Stands in for an agent: reads its task, works in the workspace. It does not read very carefully.
cat "$AGENTLAB_PROMPT_PATH"
sort words.txt > sorted.txt
