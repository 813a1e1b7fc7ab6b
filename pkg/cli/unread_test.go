package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
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
	time.Sleep(2 * unreadInterval)
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
