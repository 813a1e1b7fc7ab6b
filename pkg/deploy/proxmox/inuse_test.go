package proxmox

import (
	"testing"
	"time"

	"hive-test/pkg/deploy/proxmox/api"
)

func TestStarter(t *testing.T) {
	at := time.Unix(1700000000, 0)
	task := func(kind, who, status string, after time.Duration) api.Task {
		return api.Task{Type: kind, User: who, Status: status, Started: at.Add(after)}
	}
	us, other := "root@pam!ci", "root@pam"
	for name, tc := range map[string]struct {
		tasks []api.Task
		want  string
	}{
		"nothing is known":           {nil, "somebody"},
		"another kind":               {[]api.Task{task("qmstop", other, "OK", 0)}, "somebody"},
		"us":                         {[]api.Task{task("qmstart", us, "OK", 0)}, us},
		"another after us":           {[]api.Task{task("qmstart", other, "", time.Second), task("qmstart", us, "OK", 0)}, other},
		"us after another":           {[]api.Task{task("qmstart", us, "OK", time.Second), task("qmstart", other, "OK", 0)}, us},
		"in one second":              {[]api.Task{task("qmstart", us, "OK", 0), task("hastart", other, "OK", 0)}, other},
		"in one second, turned":      {[]api.Task{task("hastart", other, "OK", 0), task("qmstart", us, "OK", 0)}, other},
		"ours failed":                {[]api.Task{task("qmstart", us, "start failed", time.Second), task("qmreboot", other, "WARNINGS: 1", 0)}, other},
		"another's failed, ours ran": {[]api.Task{task("qmstart", other, "timeout", time.Second), task("qmstart", us, "OK", 0)}, us},
	} {
		if got := starter(tc.tasks, us); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
