#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# user_session.sh USER COMMAND...: a command with a systemd of that user's, as a login starts one. By
# root, in a mount namespace of its own, on a system that was booted otherwise.
set -eu
user=$1
shift
uid=$(id -u "$user")
export XDG_RUNTIME_DIR="/run/user/$uid"
mkdir -p /run/systemd/system "$XDG_RUNTIME_DIR" # the former: what systemctl knows a booted systemd by
chown "$user:" "$XDG_RUNTIME_DIR"
chmod 700 "$XDG_RUNTIME_DIR"

# The processes of a systemd are in control groups below one that it may change.
mount -t cgroup2 cgroup2 /sys/fs/cgroup
group=$(mktemp -d /sys/fs/cgroup/simhca-session-XXXXXX)
leave() {
	echo $$ >/sys/fs/cgroup/cgroup.procs
	for try in 1 2 3 4 5 6 7 8 9 10; do
		find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || :
		[ -d "$group" ] || return 0
		sleep 0.3
	done
	echo "$group: not empty after attempt $try"
}
trap leave EXIT
chown -R "$user:" "$group"
echo $$ >"$group/cgroup.procs"

as_user() {
	setpriv --reuid "$uid" --regid "$uid" --clear-groups env "HOME=/home/$user" "USER=$user" "$@"
}
as_user /usr/lib/systemd/systemd --user &
for try in $(seq 100); do
	as_user systemctl --user is-system-running 2>/dev/null | grep -q running && break
	sleep 0.2
done
status=0
as_user "$@" || status=$?
as_user systemctl --user exit
wait $! || :
exit $status
