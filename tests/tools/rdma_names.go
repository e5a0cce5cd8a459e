// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB

// What Kubernetes' device plugins ask of /sys and /dev by Mellanox/rdmamap, by the same calls: that package is not in Debian.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const class = "/sys/class/infiniband"

// Names in a directory that are directories themselves (links are none), or are not.
func names(directory string, directories bool) (found []string) {
	opened, err := os.Open(directory)
	if err != nil {
		return nil
	}
	defer opened.Close()
	entries, err := opened.Readdir(-1) // lstat() of each
	if err != nil {
		fmt.Println(directory, err)
	}
	for _, entry := range entries {
		if entry.IsDir() == directories {
			found = append(found, entry.Name())
		}
	}
	return found
}

func content(elements ...string) string {
	file, err := os.OpenFile(filepath.Join(elements...), os.O_RDONLY, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	if _, err = file.Seek(0, io.SeekStart); err != nil {
		fmt.Println(err)
	}
	data, _ := io.ReadAll(file)
	return strings.TrimSuffix(string(data), "\n")
}

func characterDevices(device string) (found []string) {
	for _, of := range []struct{ class, prefix string }{
		{"infiniband_cm", "ucm"}, {"infiniband_mad", "umad"}, {"infiniband_verbs", "uverbs"}} {
		for _, name := range names("/sys/class/"+of.class, false) {
			if strings.HasPrefix(name, of.prefix) && content("/sys/class", of.class, name, "ibdev") == device {
				found = append(found, "/dev/infiniband/"+name)
			}
		}
	}
	if info, err := os.Stat("/dev/infiniband/rdma_cm"); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		found = append(found, "/dev/infiniband/"+info.Name())
	}
	return found
}

func isOf(device, netdev string) bool {
	for _, port := range names(filepath.Join(class, device, "ports"), true) {
		indices := filepath.Join(class, device, "ports", port, "gid_attrs", "ndevs")
		for _, index := range names(indices, false) {
			if content(indices, index) == netdev {
				return true
			}
		}
	}
	return false
}

func main() {
	for _, device := range names(class, false) {
		fmt.Println(device, characterDevices(device), isOf(device, os.Args[1]), isOf(device, "none0"),
			len(content(class, device, "node_guid")), len(names(filepath.Join(class, device, "ports/1/hw_counters"), false)) > 10)
	}
	for _, function := range os.Args[2:] {
		fmt.Println(function, names(filepath.Join("/sys/bus/pci/devices", function, "infiniband"), true))
	}
}
