package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hive-test/pkg/cluster"
	"hive-test/pkg/remote"
)

// slowStartUp is what a start-up file costs that asks a network for something: time and no processor.
const slowStartUp = "sleep 0.3\n"

// BenchmarkOpenSSH compares hive-test with clush, parallel-ssh, ansible -m raw and a loop of ssh on twenty OpenSSH
// servers of this machine: exec of true with a plain shell and with one whose start-up file takes 0.3 s, ten commands
// over one connection with ten runs of the best, and cp of 64 MB to ten of them with clush --copy. The servers' part of
// the processors' time is printed: where it is all of them, no client can do better.
func BenchmarkOpenSSH(b *testing.B) {
	e := newPlainBench(b)
	var addresses []string
	for i := range 20 {
		addresses = append(addresses, fmt.Sprintf("127.0.1.%d", i+1))
	}
	servers, err := startSSHD(b.TempDir(), addresses...)
	if errors.Is(err, errNoSSHD) {
		b.Skip(err)
	}
	e.must(err)
	b.Cleanup(servers.stop)
	file := filepath.Join(e.dir, "hosts.yaml")
	e.must(os.WriteFile(file, []byte(servers.hostsFile()), 0o600))
	for b.Loop() {
		lab := e.openSSH(file, "plain", len(addresses))
		e.must(servers.startUp(""))
		e.floor(servers)
		best := e.compareExec(lab, servers, 5, 0.2)
		e.tenCommands(lab, servers, best)
		e.copies(lab, servers)
		if !servers.runsBash() {
			b.Log("the login shell here is not bash: nothing is measured with a start-up file")
			continue
		}
		e.must(servers.startUp(slowStartUp))
		e.hiveTest("down", lab.cluster)
		lab = e.openSSH(file, "slow", len(addresses))
		lab.about += ", a start-up file takes 0.3 s"
		e.compareExec(lab, servers, 3, 0.6)
		e.hiveTest("down", lab.cluster)
	}
}

// openSSH makes a cluster of the servers of a hosts file. Its name is in what is measured.
func (e *bench) openSSH(file, name string, count int) lab {
	e.b.Helper()
	e.hiveTest("up", name, "--hosts-file", file)
	l := lab{cluster: name, about: "OpenSSH", config: e.path(name, "ssh_config")}
	for i := range count {
		l.names = append(l.names, fmt.Sprintf("host-%d", i+1))
	}
	return l
}

// floor tells what connections cost that end after the servers' first words: no client can have a command for less.
func (e *bench) floor(servers *sshds) {
	e.b.Helper()
	var took []time.Duration
	before := servers.cpu()
	for range 7 {
		begun := time.Now()
		e.must(servers.greetAll())
		took = append(took, time.Since(begun))
	}
	each := (servers.cpu() - before) / time.Duration(len(took))
	e.b.Logf("connections to %d servers that end after their first words: %s, %.0f%% of the processors' time in it the servers' (%s)", len(servers.addresses),
		median(took).Round(time.Millisecond), 100*ratio(each, median(took)*processors()), each.Round(time.Millisecond))
}

// tenCommands runs ten commands one after the other on all hosts, over one connection each, from connecting to hanging
// up.
func (e *bench) tenCommands(lab lab, servers *sshds, best time.Duration) {
	e.b.Helper()
	var inventory cluster.Inventory
	e.must(json.Unmarshal(e.read(lab.cluster, "inventory.json"), &inventory))
	run := func() {
		dialer, err := remote.NewDialer(remote.Config{
			User: inventory.SSHUser, KeyPath: inventory.SSHKeyPath, KnownHosts: e.path(lab.cluster, "known_hosts"),
		})
		e.must(err)
		defer func() { _ = dialer.Close() }()
		group := dialer.Group(inventory.Nodes)
		for range 10 {
			_, err := group.Run(e.b.Context(), remote.Command{Argv: []string{"true"}})
			e.must(err)
		}
	}
	var took []time.Duration
	before := servers.cpu()
	for range 5 {
		begun := time.Now()
		run()
		took = append(took, time.Since(begun))
	}
	theirs := (servers.cpu() - before) / time.Duration(len(took))
	own := median(took)
	e.b.Logf("ten commands in one run on %d hosts: %s, %.0f%% of the processors' time in it the servers' (%s)", len(lab.names), own.Round(time.Millisecond),
		100*ratio(theirs, own*processors()), theirs.Round(time.Millisecond))
	if best > 0 {
		e.b.ReportMetric(ratio(own, 10*best), "ten-commands/10-best")
		e.b.Logf("ratio to ten runs of the best: %.3f (wanted: under 0.05)", ratio(own, 10*best))
	}
}

// copies compares cp of 64 MB to ten hosts with clush --copy. Each copy is a new file, and is removed when it was made.
func (e *bench) copies(lab lab, servers *sshds) {
	e.b.Helper()
	lab.names = lab.names[:min(10, len(lab.names))]
	file := filepath.Join(e.dir, "64MB")
	content := make([]byte, 64<<20)
	for i := range content {
		content[i] = byte(i ^ i>>8 ^ i>>16)
	}
	e.must(os.WriteFile(file, content, 0o644))
	fresh := func() {
		for _, address := range servers.addresses {
			e.must(os.RemoveAll(servers.files(address)))
			e.must(os.Mkdir(servers.files(address), 0o700))
		}
	}
	nodes := make([]string, len(lab.names))
	for i := range nodes {
		nodes[i] = fmt.Sprint(i + 1)
	}
	tools := []rival{
		{name: "cp", command: func() *exec.Cmd {
			fresh()
			return e.command(e.program("hive-test"), "cp", lab.cluster, "--nodes", strings.Join(nodes, ","), file, ":")
		}},
		installed("clush --copy", "clush", func() *exec.Cmd {
			fresh()
			return e.command(
				"clush", "-S", "-f", "20", "-o", "-F "+lab.config, "-w", strings.Join(lab.names, ","), "--copy", file,
				"--dest", "./",
			)
		}),
	}
	e.race(tools, servers, 3)
	e.report("copy of 64 MB", lab, tools, true, 0.7)
}
