#!/bin/sh
# Runs the tests of a Harbor task as Harbor does, in fresh folders, and makes a score of their reward file.
# LAB_TEST_USER says who runs them; empty: the image's own user. Needs `cp`, `mkdir`, `chmod`, `rm`, `cat`, `mv`.
who=${LAB_TEST_USER:-${AGENTLAB_IMAGE_USER:-}}
unset LAB_TEST_USER TMPDIR
score=$AGENTLAB_BENCHMARK_SCORE_PATH log=/logs/verifier

give_up() {
    echo "$1" >&2
    exit 1
}

rm -rf /tests $log && mkdir -p $log /logs/agent /logs/artifacts && chmod 777 $log /logs/agent /logs/artifacts &&
    cp -R "$AGENTLAB_GRADER_DIR" /tests && rm -rf /tests/.command && chmod 755 /tests /tests/test.sh ||
    give_up "/tests and $log can't be made anew"

# Who is as in a Dockerfile's USER: a name or a number, and perhaps a group behind a colon. What is not known here
# is nobody: tests never run as root because a name was not found.
group='' uid='' gid=0 home=/ name=''
case $who in *:*) group=${who#*:} who=${who%%:*} ;; esac
: "${who:=root}"
while IFS=: read -r login _ number own _ place _; do
    if [ "$login" = "$who" ] || [ "$number" = "$who" ]; then
        name=$login uid=$number gid=$own home=$place
        break
    fi
done </etc/passwd
case $who in
    root | 0) uid=0 home=${name:+$home} home=${home:-/root} ;;
    *[!0-9]*) [ -n "$uid" ] || give_up "the image knows no user '$who', who is to run the tests" ;;
    *) uid=$who ;;
esac
primary=$gid
case $group in
    *[!0-9]*)
        gid=''
        while IFS=: read -r word _ number _; do
            [ "$word" != "$group" ] || gid=$number
        done </etc/group
        [ -n "$gid" ] || give_up "the image knows no group '$group', which is to run the tests"
        ;;
    ?*) gid=$group ;;
esac
HOME=$home
export HOME

(
    if [ "$uid:${group:+$gid}" = 0: ] || [ "$uid:$gid" = 0:0 ]; then exec /tests/test.sh; fi
    if setpriv --reuid "$uid" --regid "$gid" --clear-groups true 2>/dev/null; then
        exec setpriv --reuid "$uid" --regid "$gid" --clear-groups /tests/test.sh
    fi
    [ -n "$name" ] && [ "$gid" = "$primary" ] ||
        give_up "without setpriv, tests can't be run by user $uid and group $gid"
    exec su -p -s /bin/sh "$name" -c 'exec /tests/test.sh'
) >$log/test-stdout.txt 2>&1
status=$?
cat $log/test-stdout.txt

# trim TEXT: sets `text` to it without white space around it
trim() {
    text=$1
    while :; do
        case $text in
            [[:space:]]*) text=${text#?} ;;
            *[[:space:]]) text=${text%?} ;;
            *) return ;;
        esac
    done
}

tell() {
    rm -rf "$score" "$score.new"
    printf '%s\n' "$1" >"$score.new" && mv "$score.new" "$score"
}

own="\"test_exit_status\": $status"
if [ -e $log/reward.json ]; then
    trim "$(cat $log/reward.json)"
    [ -n "$text" ] || give_up "$log/reward.json is empty"
    case $text in '{'*'}') ;; *) give_up "$log/reward.json holds no object: $text" ;; esac
    only='' rest=${text#*:}
    # One reward of whatever name is the score; of several, the one that is called `reward`.
    case $text$rest in *'"reward"'* | *:*:*) ;; *) only="\"score\": ${rest%?}, " ;; esac
    tell "{$only\"metrics\": {$own, ${text#?}}"
elif [ -e $log/reward.txt ]; then
    trim "$(cat $log/reward.txt)"
    case $text in
        '') give_up "$log/reward.txt is empty" ;;
        *[!0-9.eE+-]*) give_up "$log/reward.txt holds no number: $text" ;;
    esac
    text=${text#+}
    case $text in .*) text=0$text ;; -.*) text=-0${text#-} ;; esac
    case $text in *.) text=${text}0 ;; esac
    tell "{\"score\": $text, \"metrics\": {$own}}"
else
    give_up "test.sh exited with $status and wrote neither $log/reward.json nor $log/reward.txt"
fi
