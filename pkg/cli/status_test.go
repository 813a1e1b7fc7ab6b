package cli

import (
	"testing"

	"hive-test/pkg/hive"
)

// The column HEALTH calls no node healthy that is not.
func TestHealthWord(t *testing.T) {
	running := healthJSON{200, "running"}
	nats := func(state hive.ServiceState) []hive.Service { return []hive.Service{{Name: "nats", State: state}} }
	for _, tt := range []struct {
		node nodeStatusJSON
		want string
	}{
		{nodeStatusJSON{Health: running, Services: nats(hive.ServiceUp)}, "running"},
		{nodeStatusJSON{Health: running, Services: nats(hive.ServiceOut)}, "running"},
		{nodeStatusJSON{Health: running, Services: nats(hive.ServiceDead), Error: "its nats is dead"}, "nats dead"},
		{nodeStatusJSON{Health: running, Services: nats(hive.ServiceSilent), Error: "its nats is silent"}, "nats silent"},
		{nodeStatusJSON{Health: running, Error: "it sees 1 of 2 peers"}, "degraded"},
		{nodeStatusJSON{Health: healthJSON{200, "starting"}, Error: "x"}, "starting"},
		{nodeStatusJSON{Health: healthJSON{Code: 404}}, "HTTP 404"},
		{nodeStatusJSON{Management: "10.0.0.1"}, "no answer"},
		{nodeStatusJSON{}, "unknown"},
		{nodeStatusJSON{Management: "10.0.0.1", outside: true}, "no member"},
	} {
		if got := healthWord(tt.node); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.node, got, tt.want)
		}
	}
}
