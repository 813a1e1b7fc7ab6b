package hive

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/progress"
	"hive-test/pkg/remote"
)

// refusing is a node on which nothing ever works, for that reason.
type refusing struct {
	Host
	why error
}

func (refusing) Name() string       { return "ci-1" }
func (refusing) Node() cluster.Node { return cluster.Node{Name: "ci-1", Index: 1} }

func (h refusing) WaitReady(ctx context.Context, report func(error)) error {
	for ctx.Err() == nil {
		report(h.why)
		time.Sleep(time.Second)
	}
	return fmt.Errorf("ci-1: %w; the last try: %w", context.Cause(ctx), h.why)
}

// A node that takes no connections is given up after minutes, with that reason; one whose user is still to come is
// waited for as long as cloud-init may take.
func TestUnreachableNodesAreGivenUp(t *testing.T) {
	closed := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("i/o timeout")}
	for _, test := range []struct {
		why  error
		want time.Duration
		says string
	}{
		{fmt.Errorf("connecting to its SSH server: %w", closed), DefaultReachTimeout, "its SSH server took no connection for 3m0s; the last try: connecting to its SSH server: dial tcp: i/o timeout"},
		{remote.ErrAuth, DefaultCloudInitTimeout, "was not reached over SSH within 10m0s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := NewWithHosts("ci", []Host{refusing{why: test.why}}, Options{}, progress.Discard)
			begun := time.Now()
			err := c.waitCloudInit(t.Context(), c.hosts[0])
			if took := time.Since(begun); took.Round(time.Minute) != test.want {
				t.Errorf("%v: given up after %s, want %s", test.why, took, test.want)
			}
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v: says %v, want %s", test.why, err, test.says)
			}
		})
	}
}

// ready is a node on which commands work.
type ready struct{ *localHost }

func (ready) WaitReady(context.Context, func(error)) error { return nil }

// another answers in the place of a node, under another key.
type another struct{ refusing }

func (another) WaitReady(context.Context, func(error)) error { return &remote.HostKeyError{} }

// While a node is waited for, it is asked where it is: an agent that tells an old lease for a while is believed when it
// has told the new one.
func TestANodeThatMovesIsFollowed(t *testing.T) {
	closed := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("i/o timeout")}
	for _, test := range []struct {
		name  string
		first Host
		old   int // how often the old lease is told
		found bool
	}{
		{"it takes no connection", refusing{why: closed}, 3, true},
		{"its user is still to come there", refusing{why: remote.ErrAuth}, 3, true},
		{"another host answers there", another{}, 3, true},
		{"another host answers there, and it has not moved", another{}, 1000, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now, asked := ready{&localHost{node: cluster.Node{Name: "ci-1", Index: 1}}}, 0
				c := NewWithHosts("ci", []Host{test.first}, Options{Where: func(context.Context, Host) Host {
					if asked++; asked <= test.old {
						return nil
					}
					return now
				}}, progress.Discard)
				begun := time.Now()
				found, err := c.waitSSH(t.Context(), c.hosts[0])
				if (err == nil) != test.found || test.found && (found != Host(now) || c.hosts[0] != Host(now)) {
					t.Errorf("found %v, %v", found, err)
				}
				if took := time.Since(begun); took > 30*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}
