package stateserver_test

import (
	"testing"

	"hive-test/pkg/stateserver"
	"hive-test/pkg/stateserver/storagetest"
)

func TestMemoryIsAStorage(t *testing.T) {
	m := new(stateserver.Memory)
	storagetest.Suite(t, m, m)
}
