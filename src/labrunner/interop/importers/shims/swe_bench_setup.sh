#!/bin/sh
# Takes out of a repository what lies behind its checked-out commit: branches, tags, remotes, and every object that
# only they reach. Agents were seen reading the fix out of it.
git config --global --add safe.directory '*' && git rev-parse --quiet --verify HEAD >/dev/null || {
    echo "there is no git repository in $(pwd) whose history could be scrubbed" >&2
    exit 1
}
kept=$(git symbolic-ref --quiet HEAD) count=0
for remote in $(git remote); do git remote remove "$remote" || exit 1; done
for ref in $(git for-each-ref --format='%(refname)'); do
    [ "$ref" = "$kept" ] || { git update-ref -d "$ref" && count=$((count + 1)); } || exit 1
done
rm -f .git/FETCH_HEAD .git/ORIG_HEAD .git/MERGE_HEAD
git reflog expire --expire=now --expire-unreachable=now --all && git gc --quiet --prune=now || exit 1
echo "scrubbed: $count branches and tags are gone, and what only they reached"
