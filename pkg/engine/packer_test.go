package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hive-test/pkg/hive"
	"hive-test/pkg/progress"
	"hive-test/pkg/template"
	"hive-test/pkg/template/packer"
)

// Packer is a program here that prints its environment, as it would get it.
func TestPackerAloneGetsItsCredentials(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "packer")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nenv\ntouch versions\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	credentials := map[string]string{"BUILD_TOKEN": "credential", "PROXMOX_PASSWORD": "not this one"}
	run := packerRun{
		program: packer.Program{Path: program, Version: "1.9.0"}, layer: template.Layer{Name: "base"}, options: hive.Options{},
		credentials: func(context.Context) (map[string]string, error) { return credentials, nil },
	}
	var printed []string
	build := func() error {
		_, err := run.Build(t.Context(), filepath.Join(dir, "files"), nil, map[string]string{"PROXMOX_PASSWORD": "relay"}, func(line string) {
			printed = append(printed, line)
		})
		return err
	}
	if err := build(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"BUILD_TOKEN=credential", "PROXMOX_PASSWORD=relay"} {
		if !slices.Contains(printed, want) {
			t.Errorf("it has not got %s, but\n%s", want, strings.Join(printed, "\n"))
		}
	}
	if os.Getenv("BUILD_TOKEN") != "" {
		t.Error("so has everybody else")
	}
	run.credentials = func(context.Context) (map[string]string, error) {
		return nil, progress.WithHint(errors.New("it is closed"), "open it")
	}
	if err := build(); err == nil || progress.HintOf(err) != "open it" {
		t.Errorf("%v", err)
	}
}
