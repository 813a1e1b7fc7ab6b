package matrix

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Export is a matrix for a fleet that runs its cells: each is a run of its own, by its name or by its place.
type Export struct {
	Name    string
	Cells   []Cell
	Sizes   []Size // of the cells
	Limits  Limits
	Content []byte // of the matrix's file
	// Command is the words for the shell that run cells; what chooses them is added at its end.
	Command string
	Image   string // of containers, which has hive-test
	Claim   string // the PersistentVolumeClaim that gets what pods leave; empty: it goes with its pod
}

// GitHub returns the matrix of a job, on one line: its include has a cell each, with its name as cell.
func (x Export) GitHub() ([]byte, error) {
	type entry struct {
		Cell string `json:"cell"`
	}
	matrix := struct {
		Include []entry `json:"include"`
	}{}
	for _, c := range x.Cells {
		matrix.Include = append(matrix.Include, entry{c.Name})
	}
	raw, err := json.Marshal(matrix)
	return append(raw, '\n'), err
}

// results is where jobs leave what cells have kept.
const results = "hive-test-results"

// GitLab returns a child pipeline with a job for each cell, and one that merges their reports.
func (x Export) GitLab() ([]byte, error) {
	type artifacts struct {
		When    string            `yaml:"when"`
		Paths   []string          `yaml:"paths"`
		Reports map[string]string `yaml:"reports"`
	}
	type job struct {
		Stage     string    `yaml:"stage"`
		When      string    `yaml:"when,omitempty"`
		Script    []string  `yaml:"script"`
		Artifacts artifacts `yaml:"artifacts"`
	}
	kept := func(junit string) artifacts {
		return artifacts{When: "always", Paths: []string{results}, Reports: map[string]string{"junit": junit}}
	}
	keep := func(name string) string {
		return fmt.Sprintf(" --evidence-dir %s --junit %s/%s.xml", results, results, name)
	}
	document := yaml.Node{Kind: yaml.MappingNode}
	add := func(key string, value any) error {
		var node yaml.Node
		if err := node.Encode(value); err != nil {
			return err
		}
		document.Content = append(document.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, &node)
		return nil
	}
	if err := add("stages", []string{"cells", "report"}); err != nil {
		return nil, err
	}
	for _, c := range x.Cells {
		if err := add(c.Name, job{
			Stage: "cells", Script: []string{x.Command + " --cell " + c.Name + keep(c.Name)}, Artifacts: kept(results + "/" + c.Name + ".xml"),
		}); err != nil {
			return nil, err
		}
	}
	if err := add("report", job{
		Stage: "report", When: "always", Script: []string{"hive-test matrix merge " + results + keep("merged")},
		Artifacts: kept(results + "/merged.xml"),
	}); err != nil {
		return nil, err
	}
	return encodeYAML(&document)
}

// Kubernetes returns an Indexed Job whose pods run a cell each, and a ConfigMap with the file of the matrix.
func (x Export) Kubernetes() ([]byte, error) {
	type object = map[string]any
	n := strconv.Itoa(len(x.Cells))
	// Each pod has a directory of its own: two that begin at once give their runs one name.
	command := "exec " + x.Command + ` --shard "$((JOB_COMPLETION_INDEX + 1))/` + n + `" --evidence-dir "/results/$JOB_COMPLETION_INDEX"`
	file := object{"name": "matrix", "configMap": object{"name": x.Name + "-matrix"}}
	kept := object{"name": "results", "emptyDir": object{}}
	if x.Claim != "" {
		kept = object{"name": "results", "persistentVolumeClaim": object{"claimName": x.Claim}}
	}
	labels := object{"app.kubernetes.io/name": "hive-test", "app.kubernetes.io/instance": x.Name}
	config := object{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": x.Name + "-matrix", "labels": labels},
		"data": object{"matrix.yaml": string(x.Content)},
	}
	job := object{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": object{"name": x.Name, "labels": labels},
		"spec": object{
			"completionMode": "Indexed", "completions": len(x.Cells), "parallelism": x.atOnce(),
			"backoffLimitPerIndex": 0, // a cell that failed has told why: it is not run again
			"template": object{
				"metadata": object{"labels": labels},
				"spec": object{
					"restartPolicy": "Never",
					"containers": []object{{
						"name": "cell", "image": x.Image, "command": []string{"sh", "-c", command},
						"volumeMounts": []object{
							{"name": "matrix", "mountPath": "/matrix", "readOnly": true}, {"name": "results", "mountPath": "/results"},
						},
					}},
					// what ends a pod is TERM, after which the cell's cluster is destroyed
					"terminationGracePeriodSeconds": 900,
					"volumes":                       []object{file, kept},
				},
			},
		},
	}
	var all []byte
	for i, document := range []object{config, job} {
		raw, err := encodeYAML(document)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			all = append(all, "---\n"...)
		}
		all = append(all, raw...)
	}
	return all, nil
}

// atOnce is how many cells may run at once, whichever they are.
func (x Export) atOnce() int {
	sum := func(n int, of func(Size) int) int {
		var all []int
		for _, size := range x.Sizes {
			all = append(all, of(size))
		}
		slices.Sort(all)
		total := 0
		for _, part := range all[len(all)-n:] {
			total += part
		}
		return total
	}
	n := len(x.Cells)
	if x.Limits.MaxParallel > 0 {
		n = min(n, x.Limits.MaxParallel)
	}
	for ; n > 1; n-- {
		largest := Size{
			MemoryMB: sum(n, func(s Size) int { return s.MemoryMB }), Cores: sum(n, func(s Size) int { return s.Cores }),
			VMs: sum(n, func(s Size) int { return s.VMs }),
		}
		if largest.Within(x.Limits.Budget) {
			break
		}
	}
	return n
}

func encodeYAML(value any) ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return b.Bytes(), encoder.Close()
}
