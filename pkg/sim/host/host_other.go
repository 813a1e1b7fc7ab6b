//go:build !linux

package host

import (
	"context"
	"fmt"
	"net/netip"
	"os"
)

// Manager cannot exist on this operating system: NewManager always fails.
type Manager struct{ Machines }

var errLinuxOnly = fmt.Errorf("simulated hosts need Linux: run hive-sim on a Linux machine, or in a Linux VM or container")

// Detect always fails on this operating system.
func Detect(context.Context, string) (Kind, string, error) { return "", "", errLinuxOnly }

// DetectIn always fails on this operating system.
func DetectIn(context.Context, string, string) (Kind, string, error) { return "", "", errLinuxOnly }

// NewManager always fails on this operating system.
func NewManager(context.Context, Options) (*Manager, error) { return nil, errLinuxOnly }

// Networks are none on this operating system.
func (m *Manager) Networks() map[string]netip.Prefix { return nil }

// Main always fails on this operating system.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "hive-sim:", errLinuxOnly)
	return 1
}
