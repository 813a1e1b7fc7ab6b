package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/iac"
)

// What is measured: so many VPCs with a subnet each, made by so many clients at once, then looked for by filters.
const (
	benchVPCs      = 1000
	benchClients   = 8
	benchDescribes = 1000
	benchReaders   = 2
)

// BenchmarkGateway measures a gateway that stands alone in a process of its own, over HTTP with signatures: creates a
// second, how long a Describe with a filter takes, how much memory it has then. Where moto_server is installed, the same
// is asked of it, less often, and the ratio told. The clients run on the same processors; they have signed before.
func BenchmarkGateway(b *testing.B) {
	for b.Loop() {
		endpoint, process := startProcess(b, b.TempDir())
		ours := measure(b, endpoint, process.Pid, benchVPCs, benchDescribes)
		b.ReportMetric(ours.vpcs, "VPCs/s")
		b.ReportMetric(ours.subnets, "subnets/s")
		b.ReportMetric(ours.p50.Seconds()*1e3, "p50-ms")
		b.ReportMetric(ours.p99.Seconds()*1e3, "p99-ms")
		b.ReportMetric(ours.tables.Seconds()*1e3, "tables-p99-ms")
		b.ReportMetric(memoryOf(b, process.Pid), "MB")
		for i, name := range []string{"VPC", "subnet", "describe", "tables"} {
			b.ReportMetric(ours.computed[i].Seconds()*1e6, "us/"+name)
		}
		moto, there := startMoto(b)
		if !there {
			b.Log("skipped: there is no moto_server to compare with")
			continue
		}
		theirs := measure(b, moto, 0, benchVPCs/20, benchDescribes/50)
		b.ReportMetric(ours.vpcs/theirs.vpcs, "VPCs/moto")
		b.ReportMetric(ours.subnets/theirs.subnets, "subnets/moto")
		b.ReportMetric(float64(theirs.p99)/float64(ours.p99), "moto/p99")
	}
}

type speed struct {
	vpcs, subnets    float64 // creates a second
	p50, p99, tables time.Duration
	computed         [4]time.Duration // by the gateway, for each request of a sort
}

// measure makes VPCs with a subnet each, and describes those of one VPC at a time. The process is the gateway's; 0: it is
// not measured.
func measure(b *testing.B, endpoint iac.Endpoint, pid, vpcs, describes int) speed {
	var s speed
	last := processorTime(pid)
	computed := func(i, requests int) {
		now := processorTime(pid)
		s.computed[i], last = (now-last)/time.Duration(requests), now
	}
	id := regexp.MustCompile(`<vpcId>(vpc-[0-9a-f]+)</vpcId>`)
	ids := make([]string, vpcs)
	create := signed(b, endpoint, "CreateVpc", wire.Object{"CidrBlock": "10.0.0.0/16"})
	s.vpcs = rate(b, endpoint, benchClients, vpcs, func(int) []byte { return create }, func(i int, body []byte) {
		ids[i] = string(id.FindSubmatch(body)[1])
	})
	if b.Failed() {
		b.FailNow()
	}
	computed(0, vpcs)
	requests := make([][]byte, vpcs)
	for i := range requests {
		requests[i] = signed(b, endpoint, "CreateSubnet", wire.Object{"VpcId": ids[i], "CidrBlock": "10.0.1.0/24"})
	}
	s.subnets = rate(b, endpoint, benchClients, vpcs, func(i int) []byte { return requests[i] }, nil)
	computed(1, vpcs)
	for i := range requests {
		requests[i] = signed(b, endpoint, "DescribeSubnets", filterOf("vpc-id", ids[i]))
	}
	s.p50, s.p99 = latencies(b, endpoint, requests, describes)
	computed(2, describes)
	for i := range requests {
		requests[i] = signed(b, endpoint, "DescribeRouteTables", filterOf("vpc-id", ids[i], "association.main", "true"))
	}
	_, s.tables = latencies(b, endpoint, requests, describes)
	computed(3, describes)
	return s
}

func filterOf(pairs ...string) wire.Object {
	var filters []wire.Object
	for i := 0; i+1 < len(pairs); i += 2 {
		filters = append(filters, wire.Object{"Name": pairs[i], "Values": wire.Strings(pairs[i+1])})
	}
	return wire.Object{"Filters": wire.List(filters...)}
}

// latencies makes requests in turn, by a few clients, and returns how long half and 99 of 100 of them take at most.
func latencies(b *testing.B, endpoint iac.Endpoint, requests [][]byte, n int) (p50, p99 time.Duration) {
	var mu sync.Mutex
	var all []time.Duration
	var begun [benchReaders]time.Time
	of := func(client int) func(int) []byte {
		return func(i int) []byte { begun[client] = time.Now(); return requests[i%len(requests)] }
	}
	var clients sync.WaitGroup
	for c := range benchReaders {
		clients.Go(func() {
			rate(b, endpoint, 1, n/benchReaders, of(c), func(_ int, body []byte) {
				took := time.Since(begun[c])
				mu.Lock()
				defer mu.Unlock()
				all = append(all, took)
				if found := bytes.Count(body, []byte("<vpcId>")); found != 1 {
					b.Errorf("a filter that one resource has finds %d", found)
				}
			})
		})
	}
	clients.Wait()
	if b.Failed() {
		b.FailNow()
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100]
}

// rate makes requests by clients at once, each on a connection of its own, and returns how many are answered a second.
func rate(
	b *testing.B, endpoint iac.Endpoint, clients, n int, request func(int) []byte, answered func(int, []byte),
) float64 {
	var next atomic.Int64
	var all sync.WaitGroup
	begun := time.Now()
	for range clients {
		all.Go(func() {
			answers := &answers{address: strings.TrimPrefix(endpoint.URL, "http://")}
			defer answers.close()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				body, err := answers.ask(request(i))
				if err != nil {
					b.Error(err)
					return
				}
				if answered != nil {
					answered(i, body)
				}
			}
		})
	}
	all.Wait()
	return float64(n) / time.Since(begun).Seconds()
}

// signed is a request as it goes over a connection. It is good for as long as its signature.
func signed(b *testing.B, endpoint iac.Endpoint, action string, in wire.Object) []byte {
	form, err := wire.EncodeQuery(action, in)
	if err != nil {
		b.Fatal(err)
	}
	return rawRequest(b, endpoint, form)
}

func rawRequest(b *testing.B, endpoint iac.Endpoint, form url.Values) []byte {
	body := []byte(form.Encode())
	r, err := http.NewRequest(http.MethodPost, endpoint.URL+"/", bytes.NewReader(body))
	if err == nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		err = endpoint.Key.Sign(r, body, "ec2", time.Now())
	}
	var raw bytes.Buffer
	if err == nil {
		err = r.Write(&raw)
	}
	if err != nil {
		b.Fatal(err)
	}
	return raw.Bytes()
}

// memoryOf is how much memory a process has, in megabytes.
func memoryOf(b *testing.B, pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Logf("the memory is not measured: %v", err)
		return 0
	}
	kilobytes := regexp.MustCompile(`(?m)^VmRSS:\s+([0-9]+) kB`).FindSubmatch(status)
	n, _ := strconv.Atoi(string(kilobytes[1]))
	return float64(n) / 1024
}

// processorTime is how long a process has computed. The kernel tells it by hundredths of a second.
func processorTime(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	const userTime, systemTime = 11, 12 // after the name, which may have blanks
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, _ := strconv.Atoi(fields[userTime])
	system, _ := strconv.Atoi(fields[systemTime])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// startMoto starts moto_server, where it is installed.
func startMoto(t testing.TB) (iac.Endpoint, bool) {
	t.Helper()
	program := motoServer()
	if program == "" {
		return iac.Endpoint{}, false
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.Command(program, "-H", "127.0.0.1", "-p", port)
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	const longest = time.Minute
	for begun := time.Now(); time.Since(begun) < longest; time.Sleep(100 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			e := iac.Endpoint{URL: "http://" + address, Client: &http.Client{Timeout: time.Minute}}
			e.Key.AccessKey, e.Key.SecretKey, e.Key.Region = accessKey, secretKey, region
			return e, true
		}
	}
	t.Fatalf("moto_server does not answer after %s", longest)
	return iac.Endpoint{}, false
}

// motoServer is the path of the program; empty: it is not installed.
func motoServer() string {
	if path, err := exec.LookPath("moto_server"); err == nil && !strings.Contains(path, "shims") {
		return path
	}
	home, _ := os.UserHomeDir()
	found, _ := filepath.Glob(filepath.Join(home, ".pyenv/versions/*/bin/moto_server"))
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}
