# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# shellcheck shell=bash
# For scripts/demo: building, and running a server and a client.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# build PRESET [TARGET]...: configures and builds, all by default; output to stdout.
build() {
	local preset=$1
	shift
	(cd "$root" && cmake --preset "$preset" &&
		cmake --build --preset "$preset" ${1:+--target "$@"})
}

# True when something listens on TCP port $1.
is_listening() {
	local hex
	hex=$(printf '%04X' "$1")
	# local address, remote address, state 0A: LISTEN
	grep -qs "^ *[0-9]*: [0-9A-F]*:$hex [0-9A-F]*:0000 0A " /proc/net/tcp /proc/net/tcp6
}

next_port=$((20000 + RANDOM % 10000))
# Sets port to one that nobody listens on, and no earlier call returned.
new_port() {
	while
		port=$((next_port++))
		is_listening "$port"
	do :; done
}

# wait_listening PORT PID: until process PID, or its child, listens; false if it ends before.
wait_listening() {
	local deadline=$((SECONDS + 60))
	while ! is_listening "$1"; do
		if ! kill -0 "$2" 2>/dev/null || [ $SECONDS -ge $deadline ]; then
			return 1
		fi
		sleep 0.02
	done
}

# pair DIR PROGRAM [ARGUMENT]...: PROGRAM as server, and then as client of it, each run by
# "${simhca[@]}".
# Output to DIR/server and DIR/client. Returns 0 only if both succeed.
pair() {
	local dir=$1 limit=60 port server client_status=0 server_status=0
	shift
	mkdir -p "$dir"
	new_port
	timeout -k 5 "$limit" "${simhca[@]}" -- "$@" -p "$port" \
		>"$dir/server" 2>&1 </dev/null &
	server=$!
	if wait_listening "$port" $server; then
		timeout -k 5 "$limit" "${simhca[@]}" -- "$@" -p "$port" \
			localhost >"$dir/client" 2>&1 </dev/null || client_status=$?
	else
		echo "the server did not listen on port $port" >"$dir/client"
		client_status=1
	fi
	# The server ends with its client; if that failed, it may wait for ever.
	[ $client_status -eq 0 ] || kill $server 2>/dev/null || true
	wait $server || server_status=$?
	if [ $client_status -ne 0 ] || [ $server_status -ne 0 ]; then
		echo "exit status: client $client_status, server $server_status" >>"$dir/client"
		return 1
	fi
}
simhca=()
