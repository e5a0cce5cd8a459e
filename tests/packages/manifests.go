// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB

// manifests FILE...: reads each object of Kubernetes as the types of its API, which have to know every field, and
// have it of that kind. That is what kubectl's validation and kubeconform do with the schema made of these types.
package main

import (
	"bytes"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func object(of string) any {
	switch of {
	case "v1 Namespace":
		return &corev1.Namespace{}
	case "v1 Service":
		return &corev1.Service{}
	case "v1 Pod":
		return &corev1.Pod{}
	case "apps/v1 DaemonSet":
		return &appsv1.DaemonSet{}
	case "batch/v1 Job":
		return &batchv1.Job{}
	}
	return nil
}

func read(document []byte) (string, error) {
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(document, &head); err != nil {
		return "", err
	}
	of := head.APIVersion + " " + head.Kind
	made := object(of)
	if made == nil {
		return of, fmt.Errorf("no such kind here")
	}
	return of, yaml.UnmarshalStrict(document, made)
}

func main() {
	status := 0
	for _, name := range os.Args[1:] {
		text, err := os.ReadFile(name)
		if err != nil {
			fmt.Println(err)
			os.Exit(2)
		}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			of, err := read(document)
			if err != nil {
				fmt.Printf("%s: %s: %v\n", name, of, err)
				status = 1
			} else {
				fmt.Printf("%s: %s\n", name, of)
			}
		}
	}
	os.Exit(status)
}
