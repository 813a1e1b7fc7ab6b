package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hive-test/pkg/engine"
)

func TestWhileRead(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Close() }()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	ofPipe, stop := whileRead(t.Context(), writer)
	defer stop()
	ofFile, stopFile := whileRead(t.Context(), file)
	for _, f := range []*os.File{writer, file} {
		conn, err := f.SyscallConn()
		if err != nil || unread(conn) {
			t.Fatalf("%s has its reader, or needs none (%v)", f.Name(), err)
		}
	}
	if err := errors.Join(ofPipe.Err(), ofFile.Err()); err != nil {
		t.Fatalf("the reader is there: %v", err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	<-ofPipe.Done()
	if cause := context.Cause(ofPipe); !errors.Is(cause, syscall.EPIPE) {
		t.Errorf("the reader is gone: %v", cause)
	}
	if ofFile.Err() != nil {
		t.Errorf("a file needs no reader: %v", context.Cause(ofFile))
	}
	stopFile()
	if cause := context.Cause(ofFile); !errors.Is(cause, context.Canceled) {
		t.Errorf("stopped: %v", cause)
	}
}

func TestClosedPipeIsNoFailure(t *testing.T) {
	closed := &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
	other := errors.New("other")
	elsewhere := &fs.PathError{Op: "write", Path: "report.md", Err: syscall.EPIPE}
	unhealthy := engine.Error{Code: engine.ExitUnhealthy}
	for _, tc := range []struct{ err, want error }{
		{nil, nil},
		{closed, nil},
		{fmt.Errorf("printing: %w", closed), nil},
		{engine.Error{Code: engine.ExitConfig, Err: closed}, nil},
		{errors.Join(closed, closed), nil},
		{errors.Join(closed, other), other},
		{other, other},
		{elsewhere, elsewhere},
		{unhealthy, unhealthy},
	} {
		got := withoutClosedPipe(tc.err, "/dev/stdout")
		if (got == nil) != (tc.want == nil) || tc.want != nil && (!errors.Is(got, tc.want) || errors.Is(got, closed)) {
			t.Errorf("%v: got %v, want %v", tc.err, got, tc.want)
		}
	}
}

// TestNobodyReadsStdout: what prints to a program that has ended says nothing about that, and its exit code is the same.
func TestNobodyReadsStdout(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		args []string
		code int
	}{
		{[]string{"version"}, 0},
		{[]string{"config", "show"}, 0},
		{[]string{"help", "up"}, 0},
		{[]string{"doctor"}, int(engine.ExitConfig)},
		{[]string{"doctor", "-o", "json"}, int(engine.ExitConfig)},
	} {
		reader, writer, err := os.Pipe()
		if err == nil {
			err = reader.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		var told bytes.Buffer
		getenv := func(name string) string { return map[string]string{"HOME": dir}[name] }
		code := Main(tc.args, Environment{Stdout: writer, Stderr: &told, Getenv: getenv, WorkDir: dir})
		if code != tc.code || strings.Contains(told.String(), "pipe") {
			t.Errorf("%q: exit code %d, want %d: %s", tc.args, code, tc.code, told.String())
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
