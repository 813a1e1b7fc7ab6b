package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"hive-test/pkg/awsauth"
	"hive-test/pkg/gateway"
	"hive-test/pkg/iac"
)

// serveDir has the test program be a gateway that stands alone, in that directory.
const serveDir = "SERVE_GATEWAY_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveDir); dir != "" {
		os.Exit(serve(dir))
	}
	os.Exit(m.Run())
}

// serve is a gateway until SIGTERM. It tells on stdout when it answers.
func serve(dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log, err := os.OpenFile(gateway.Place{Dir: dir}.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		err = gateway.Place{Dir: dir}.Serve(ctx, gateway.Serving{
			Listen: "127.0.0.1:0", Region: region, Account: account, Log: log,
		}, func(err error) error {
			fmt.Println("ready:", err)
			return err
		})
	}
	if err != nil {
		fmt.Println("ready:", err)
		return 1
	}
	return 0
}

// startProcess starts a gateway in a process of its own, and waits until it answers.
func startProcess(t testing.TB, dir string) (iac.Endpoint, *os.Process) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); strings.TrimSpace(line) != "ready: <nil>" {
		t.Fatalf("the gateway does not start: %s (%v)", line, err)
	}
	place := gateway.Place{Dir: dir}
	info, err := place.Running()
	if err != nil || info == nil {
		t.Fatalf("the gateway that runs is not found: %v, %v", info, err)
	}
	keys, err := place.Keys()
	if err != nil {
		t.Fatal(err)
	}
	return iac.Endpoint{
		URL:    info.Endpoint,
		Key:    awsauth.Key{AccessKey: keys.AccessKey, SecretKey: keys.SecretKey, Region: region},
		Client: &http.Client{Timeout: time.Minute},
	}, cmd.Process
}
