#!/bin/sh
# The first process of an attempt's container: setup, agent, barrier, grader. It needs nobody to go on.
#
# Told on standard input, once: a nonce, then the plan up to a line "end NONCE": how long setup and agent may
# take, functions `setup` and `agent` that start them, `meet` for users that must be there, `own` and
# `hand_back` for who owns the files.
# Tells in files below /agentlab/ctl, renamed into place; lines on standard output are hints to look there,
# and the engine keeps them.
#   phase          setup, gate, agent: for information only
#   phase-NONCE    failed, barrier, grader, graded: a name that no other user finds out
# An agent that shares our user can do to us what it likes. So then `restart` is set: we close our streams before
# it begins, so that it can't change what the engine heard, and end at the barrier. Nothing that we say from there on
# is believed but about the agent itself, and a new life of ours, with another nonce, sees to the grader.
# The grader's command appears in /agentlab/grader/.command behind the barrier; its first line is "# BELL".
# "ring BELL", its environment and "end BELL" on standard input start it: environments hold secrets, so they
# are never written. Whatever else is found on standard input, an agent may have left: ignored.
#
# Exit: 0 graded, 80 setup failed, 82 grader failed, 83 grader timed out, 84 no score, 85 no such tool
# or user, 86 nobody came back, 87 at the barrier, to be started again for the grader, 88 could not tell.

expiry=$1
lab=/agentlab ctl=/agentlab/ctl logs=/agentlab/logs cgroup=/sys/fs/cgroup
command=$lab/grader/.command score=$lab/out/benchmark_score.json prediction=$lab/out/benchmark_prediction.json
page=phase facts='' gate='' restart='' most_left='' setup_s='' agent_s=''
newline='
'
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
umask 022

note() {
    facts="$facts$1$newline"
}

say() {
    read -r up _ </proc/uptime
    printf 'phase=%s\nat=%s\n%s' "$1" "$up" "$facts" >"$ctl/$page.new" &&
        mv -f "$ctl/$page.new" "$ctl/$page" || exit 88
    printf '%s\n' "$1"
}

# End every process but this one. Its status proves nothing: the runner looks from outside.
hush() {
    kill -9 -1 2>&- # an agent may have replaced /dev/null
    wait
    trap - TERM
}

# From here to the next hush, leave when nobody comes back. Only in this time does a signal end us.
expire() {
    trap 'exit 86' TERM
    (trap - TERM && sleep "$expiry" && kill -TERM 1) </dev/null >/dev/null 2>&1 &
}

# What the kernel counts for this container: kills for memory, processor time, the most memory. Each is empty
# where it does not tell.
measure() {
    ooms='' cpu_us='' cpu_ns='' peak=''
    for events in $cgroup/memory.events $cgroup/memory/memory.oom_control $cgroup/cpu.stat; do
        [ -r "$events" ] || continue
        while read -r key value; do
            case $key in oom_kill) ooms=$value ;; usage_usec) cpu_us=$value ;; esac
        done <"$events"
    done
    [ -r $cgroup/cpuacct/cpuacct.usage ] && read -r cpu_ns <$cgroup/cpuacct/cpuacct.usage
    [ -r $cgroup/memory.peak ] && read -r peak <$cgroup/memory.peak
    [ -r $cgroup/memory/memory.max_usage_in_bytes ] && read -r peak <$cgroup/memory/memory.max_usage_in_bytes
}

# Whether something is left that outlives processes: a grader would find it, or lack the memory that it takes.
is_littered() {
    for path in /dev/shm/* /dev/shm/.[!.]* /dev/shm/..?* /dev/mqueue/* /dev/mqueue/.[!.]* /dev/mqueue/..?*; do
        if [ -e "$path" ] || [ -L "$path" ]; then return 0; fi
    done
    for kind in shm msg sem; do
        [ -r /proc/sysvipc/$kind ] && { read -r _ && read -r _; } </proc/sysvipc/$kind && return 0
    done
    for counts in $cgroup/memory.stat $cgroup/memory/memory.stat; do
        [ -r "$counts" ] || continue
        while read -r key value; do
            [ "$key" = shmem ] && [ "$value" -gt "$most_left" ] && return 0
        done <"$counts"
    done
    return 1
}

# Remove what somebody may have planted. A test first: it costs nothing, a process does.
clear_away() {
    for path in "$@"; do
        if [ -e "$path" ] || [ -L "$path" ]; then rm -rf "$path"; fi
    done
}

# pick USER: choose, on our own PATH, what makes a command run as that user
pick() {
    runner='' as=''
    [ -n "$1" ] && find_user "$1" && [ "$uid:$gid" != 0:0 ] || return 0
    as=$uid
    groups=--clear-groups
    [ -n "$name" ] && groups=--init-groups
    if setpriv --reuid "$uid" --regid "$gid" $groups true 2>/dev/null; then runner=$(command -v setpriv)
    elif [ -n "$name" ] && command -v setuidgid >/dev/null; then runner=$(command -v setuidgid)
    elif [ -n "$name" ] && command -v su >/dev/null; then runner=$(command -v su); fi
}

# start COMMAND...: replace this shell by the command, as the user that was picked
start() {
    case $as:$runner in
        :) exec "$@" ;;
        *setpriv) exec "$runner" --reuid "$uid" --regid "$gid" $groups -- "$@" ;;
        *setuidgid) exec "$runner" "$name" "$@" ;;
        *su)
            kept_home=$HOME kept_path=$PATH
            export kept_home kept_path
            # shellcheck disable=SC2016 # expanded by the shell that su starts
            exec "$runner" -p -s /bin/sh -c \
                'HOME=$kept_home PATH=$kept_path; unset kept_home kept_path; exec "$@"' -- "$name" sh "$@" ;;
    esac
    echo "this image has none of setpriv, setuidgid, su to start a command as user $as" >&2
    exit 126
}

# lack WORDS: say what is missing, and leave
lack() {
    echo "$1" >&2
    exit 85
}

# find_user NAME[:GROUP] | UID[:GID]: sets uid, gid, name; uid is empty when there is none
find_user() {
    uid='' gid='' name=''
    wanted=${1%%:*}
    while IFS=: read -r login _ number group _; do
        if [ "$login" = "$wanted" ] || [ "$number" = "$wanted" ]; then
            name=$login uid=$number gid=$group
            break
        fi
    done </etc/passwd
    case $wanted in *[!0-9]*) ;; *) uid=$wanted gid=${gid:-$wanted} ;; esac
    case $1 in *:*) find_group "${1#*:}" ;; esac
    [ -n "$uid" ] || lack "there is no user $1 in this image"
}

find_group() {
    case $1 in
        *[!0-9]*) while IFS=: read -r group _ number _; do [ "$group" = "$1" ] && gid=$number; done </etc/group ;;
        *) gid=$1 ;;
    esac
}

# give USER PATH...: let a user own what lies there
give() {
    find_user "$1"
    shift
    chown -hR "$uid:$gid" "$@"
}

# run NAME SECONDS INPUT: start the function of that name, wait for its end or its time, end all it started
run() {
    read -r began _ </proc/uptime
    (sleep "$2" && : >"$ctl/late-$nonce" && kill -9 -1) </dev/null >/dev/null 2>&1 &
    # Not in the background: what a shell puts there ignores SIGINT and SIGQUIT, and could never undo that.
    (
        echo 1000 >/proc/self/oom_score_adj
        "$1"
    ) <"$3" >>"$logs/$1.stdout" 2>>"$logs/$1.stderr"
    status=$?
    read -r ended _ </proc/uptime
    hush
    late=''
    [ -e "$ctl/late-$nonce" ] && rm -f "$ctl/late-$nonce" && late=1
    before=$ooms oom='' cpu_before=$cpu_us$cpu_ns
    measure
    [ "$ooms" != "$before" ] && oom=1
    note "$1=$status"
    note "$1_late=$late"
    note "$1_oom=$oom"
    [ -n "$cpu_us" ] && note "$1_cpu_us=$((cpu_us - cpu_before))"
    [ -n "$cpu_ns" ] && note "$1_cpu_us=$(((cpu_ns - cpu_before) / 1000))"
    note "$1_peak=$peak"
    note "$1_began=$began"
    note "$1_ended=$ended"
}

# The one signal that shells catch of their own accord, and would end us.
trap : INT

for tool in sleep mv rm chown; do
    command -v "$tool" >/dev/null || lack "this image lacks the tool: $tool"
done

expire
IFS= read -r nonce || exit 86
plan='' line=''
while :; do
    IFS= read -r line || exit 86
    [ "$line" = "end $nonce" ] && break
    plan="$plan$line$newline"
done
eval "$plan"
unset plan
hush
measure

if [ -n "$setup_s" ]; then
    say setup
    own
    run setup "$setup_s" /dev/null
    if [ "$status$late$oom" != 0 ]; then
        page=phase-$nonce
        hand_back
        say failed
        exit 80
    fi
fi
if [ -n "$gate" ]; then
    say gate
    expire
    line=''
    while [ "$line" != "go $nonce" ]; do IFS= read -r line || exit 86; done
    hush
fi
if [ -n "$agent_s" ]; then
    meet
    say agent
    [ -n "$restart" ] && exec </dev/null >/dev/null 2>&1
    own
    run agent "$agent_s" "$agent_input"
    [ -z "$restart" ] && is_littered && restart=1 && note littered=1
fi
page=phase-$nonce
hand_back
say barrier
[ -n "$restart" ] && exit 87

while :; do
    expire
    bell=$nonce env='' line=''
    while [ "$line" != "end $bell" ]; do
        IFS= read -r line || exit 86
        [ -f "$command" ] && read -r _ bell <"$command"
        if [ "$line" = "ring $bell" ]; then env=''; else env="$env$line$newline"; fi
    done
    env=${env%"end $bell$newline"}
    hush
    # shellcheck source=/dev/null # written by the runner, behind the barrier
    . "$command"
    note "try=$number"
    say grader
    clear_away "$prediction" "$score"
    [ "$number" = 1 ] && clear_away "$logs/grader.stdout" "$logs/grader.stderr"
    own
    run grader "$grader_s" /dev/null
    if [ -n "$late" ]; then code=83
    elif [ "$status" != 0 ]; then code=82
    elif [ ! -f "$score" ] || [ -L "$score" ]; then code=84
    else code=0; fi
    hand_back
    note "code=$code"
    say graded
    [ "$code" = 0 ] && exit 0
    [ -z "$more" ] && exit "$code"
done
