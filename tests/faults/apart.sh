# Run a command that can change nothing but a folder: sh apart.sh FOLDER COMMAND..., in namespaces of its own (`unshare --mount`).
# A fault in the source may remove any file whose name a test happens to mention: all that is mounted is read-only here,
# and /tmp and /dev/shm are new and empty.
set -eu
folder=$1
shift
mount --make-rprivate /
mount --bind "$folder" "$folder"
for place in /tmp /dev/shm; do
    case $folder in
    "$place"/*) ;;
    *) mount -t tmpfs tmpfs "$place" ;;
    esac
done
while read -r _ place _; do
    place=$(printf '%b' "$place")
    case $place in
    "$folder" | /tmp | /dev/shm | /dev/pts | /proc | /proc/*) continue ;;
    esac
    if test -e "$place"; then
        mount -o remount,bind,ro "$place"
    fi
done </proc/self/mounts
if touch /etc/.timeleap-is-apart 2>/dev/null; then
    rm -f /etc/.timeleap-is-apart
    echo "apart.sh: the file system can still be written to" >&2
    exit 125
fi
cd "$folder"
"$@" # not by exec: somebody has to be the first process here, which takes care of orphans
