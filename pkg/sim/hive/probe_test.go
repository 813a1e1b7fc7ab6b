package simhive

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"hive-test/pkg/iac"
)

// What a probe finds at real hive of both eras, one node with an image: resource, phase, verdict and the call that
// decides. Guests and their disks were pretended, there as here: the rest of hive was as it is.
var (
	//go:embed testdata/probe-pre.txt
	probedPre string
	//go:embed testdata/probe-spx.txt
	probedSpx string
)

func TestProbe(t *testing.T) {
	soak(t)
	t.Parallel()
	eras(t, func(t *testing.T, era Era) {
		cpus := 2 // for one instance, as there
		if era == EraSpx {
			cpus += hostReserve
		}
		n := cluster(t, era, 1, map[string]any{"time_scale": 0.002, "cpus": cpus})[0]
		key := n.credentials()
		env := map[string]string{
			"AWS_ACCESS_KEY_ID": key.AccessKeyID, "AWS_SECRET_ACCESS_KEY": key.SecretAccessKey,
			"AWS_CA_BUNDLE": n.config("ca.pem"), "AWS_REGION": "ap-southeast-2",
		}
		endpoint, err := iac.EndpointOf("https://"+n.ip+":9999", func(name string) string { return env[name] })
		if err != nil {
			t.Fatal(err)
		}
		table := iac.Probe(t.Context(), endpoint, iac.Options{Patience: 1500 * time.Millisecond})
		var found bytes.Buffer
		for _, row := range table.Rows {
			for _, phase := range iac.Phases() {
				if cell, there := row.Cells[phase]; there {
					line := fmt.Sprintf("%s, %s: %s %s", row.Resource, phase, cell.Verdict, cell.Call)
					fmt.Fprintln(&found, strings.TrimSpace(line))
				}
			}
		}
		want := n.of(probedPre, probedSpx)
		lines := func(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }
		for _, line := range lines(found.String()) {
			if !slices.Contains(lines(want), line) {
				t.Errorf("simulated: %s", line)
			}
		}
		for _, line := range lines(want) {
			if !slices.Contains(lines(found.String()), line) {
				t.Errorf("real:      %s", line)
			}
		}
	})
}

// soak skips a test that takes too long for each change.
func soak(t *testing.T) {
	t.Helper()
	if os.Getenv("HIVE_TEST_SOAK") == "" {
		t.Skip("takes ten seconds: make soak runs it")
	}
}
