#!/bin/sh
# Runs run-tests.sh of a terminal-bench task in a fresh /tests, and makes a score of pytest's short summary.
# Needs `bash`, as the original does, and `cp`, `mkdir`, `rm`, `mv`, `cat`.
unset TMPDIR
HOME=/root TEST_DIR=/tests
export HOME TEST_DIR
score=$AGENTLAB_BENCHMARK_SCORE_PATH log=/logs/tests.log

give_up() {
    echo "$1" >&2
    exit 1
}

command -v bash >/dev/null || give_up "there is no bash here, which run-tests.sh needs"
rm -rf /tests $log && mkdir -p /tests /logs /agent-logs && cp "$AGENTLAB_GRADER_DIR/run-tests.sh" /tests/ ||
    give_up "/tests can't be made anew"
if [ -d "$AGENTLAB_GRADER_DIR/tests" ]; then
    cp -R "$AGENTLAB_GRADER_DIR/tests/." /tests/ || give_up "the tests can't be copied to /tests"
fi
bash /tests/run-tests.sh >$log 2>&1
status=$?
cat $log

# quote TEXT: sets `quoted` to it as text of JSON
quote() {
    rest=$1 quoted=''
    while [ -n "$rest" ]; do
        letter=${rest%"${rest#?}"}
        rest=${rest#?}
        case $letter in
            '"' | '\') quoted="$quoted\\$letter" ;;
            [[:cntrl:]]) ;;
            *) quoted="$quoted$letter" ;;
        esac
    done
}

summary='' found=0 passed=0 each=''
while IFS= read -r line || [ -n "$line" ]; do
    case $line in *=*'short test summary info'*=*) summary=1 && continue ;; esac
    [ -n "$summary" ] || continue
    word=${line%%[[:space:]]*} name=${line#*[[:space:]]} good=0
    case $word in
        PASSED | SKIPPED | XFAIL) good=1 ;;
        FAILED | ERROR | XPASS) ;;
        *) continue ;;
    esac
    found=$((found + 1)) passed=$((passed + good))
    # What is kept of each test has an end: scores are small.
    if [ ${#each} -lt 24000 ]; then
        quote "${name%% - *}"
        case $each in *"\"test: $quoted\""*) ;; *) each="$each, \"test: $quoted\": $good" ;; esac
    fi
done <$log
reward=0
[ "$found" -gt 0 ] && [ "$found" = "$passed" ] && reward=1
figures="\"test_exit_status\": $status, \"tests\": $found, \"tests_passed\": $passed$each"
rm -rf "$score" "$score.new"
printf '{"score": %s, "metrics": {%s}, "ext": {"summary_found": %s}}\n' \
    "$reward" "$figures" "$([ -n "$summary" ] && echo true || echo false)" >"$score.new" && mv "$score.new" "$score"
