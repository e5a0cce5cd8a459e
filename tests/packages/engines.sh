#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# engines.sh DIR COMMAND...: docker and containerd as Debian packages them, in a tree of scripts/chroot that has a bare
# machine's file systems: no systemd, no network but lo, no firewall, and storage that is plain directories. Their sockets
# are in DIR, and both have one image, "image", of these commands and what they are linked with: it has neither a
# package manager nor anything of simhca. Says "ready", and stays.
set -eu
dir=$1
shift

control_groups() {
	mount -t tmpfs cgroup /sys/fs/cgroup
	old=$(awk '$1 !~ /^#/ && $2 > 0 { print $1 }' /proc/cgroups)
	[ -n "$old" ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup
	for controller in $old; do
		mkdir "/sys/fs/cgroup/$controller"
		mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller" || rmdir "/sys/fs/cgroup/$controller"
	done
}

add_file() {
	mkdir -p "/image$(dirname "$1")"
	cp -L "$1" "/image$1"
}

image() {
	dpkg -L libc6 | grep '\.so' | while read -r file; do [ ! -f "$file" ] || add_file "$file"; done
	for command in "$@"; do
		file=$(command -v "$command")
		add_file "$file"
		ldd "$file" | grep -o '/[^ ]*' | while read -r library; do add_file "$library"; done
	done
	mkdir -p /image/tmp /image/proc /image/sys /image/dev /image/run /image/etc
	echo 'root:x:0:0:root:/:/bin/sh' >/image/etc/passwd
	echo '127.0.0.1 localhost' >/image/etc/hosts
	echo 'hosts: files' >/image/etc/nsswitch.conf
}

wait_for() {
	for _ in $(seq 100); do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	"$@"
}

control_groups
image "$@"
mkdir -p /etc/docker /run/containerd-here
echo '{ "features": { "cdi": true }, "cdi-spec-dirs": ["/etc/cdi"] }' >/etc/docker/daemon.json
dockerd -H "unix://$dir/docker" --iptables=false --bridge=none --storage-driver=vfs \
	--exec-opt native.cgroupdriver=cgroupfs >"$dir/docker.log" 2>&1 &
# The number of a process by which the kernel chooses whom to end may not be lowered in a container.
cat >/run/containerd-here/config.toml <<-END
	version = 2
	root = "/run/containerd-here/root"
	state = "/run/containerd-here/state"
	[grpc]
	address = "$dir/containerd"
	[plugins."io.containerd.grpc.v1.cri"]
	enable_cdi = true
	restrict_oom_score_adj = true
	sandbox_image = "docker.io/library/image:latest"
	[plugins."io.containerd.grpc.v1.cri".containerd]
	snapshotter = "native"
END
containerd -c /run/containerd-here/config.toml >"$dir/containerd.log" 2>&1 &
wait_for docker -H "unix://$dir/docker" version
tar -C /image -c . | docker -H "unix://$dir/docker" import --change 'CMD ["/usr/bin/sleep", "infinity"]' \
	--change 'ENV PATH=/usr/bin:/bin' - image:latest
docker -H "unix://$dir/docker" save image:latest -o "$dir/image.tar"
wait_for ctr -a "$dir/containerd" version
ctr -a "$dir/containerd" -n k8s.io images import --snapshotter native "$dir/image.tar"
echo ready
wait
