package pve

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

const (
	goodAnswers = "#cloud-config\n{\"autoinstall\": {\"version\": 1, \"packages\": [\"qemu-guest-agent\"], \"ssh\": {\"install-server\": true}, " +
		"\"storage\": {\"layout\": {\"name\": \"direct\"}}, \"user-data\": {\"users\": [{\"name\": \"made\"}]}}}\n"
	installerISO = "iso/ubuntu-24.04-live-server-amd64.iso"
)

// TestInstaller: a VM with an empty disk boots nothing, and the installer in its CD drive installs what it is told by its keyboard alone.
func TestInstaller(t *testing.T) {
	s, c, f := startServer(t, Options{})
	s.mu.Lock()
	s.state.Volumes = append(s.state.Volumes, &volume{Node: "pve1", Storage: "local", Name: installerISO, Content: "iso", Format: "iso", Size: 1})
	s.mu.Unlock()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/meta-data":
		case "/user-data":
			_, _ = w.Write([]byte(goodAnswers))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(web.Close)
	linux := "clinux /casper/vmlinuz --- autoinstall 'ds=nocloud-net;s=" + web.URL + "/'\n"
	rest := "initrd /casper/initrd\nboot\n"
	for name, row := range map[string]struct {
		drives, typed string
		installs      bool
	}{
		"as it should be": {"ide2=local:" + installerISO + ",media%3Dcdrom", linux + rest, true},
		"no ISO":          {"", linux + rest, false},
		"another ISO":     {"ide2=local:iso/debian-12-genericcloud-amd64.img,media%3Dcdrom", linux + rest, false},
		"no command line": {"ide2=local:" + installerISO + ",media%3Dcdrom", linux[1:] + rest, false},
		"no initrd":       {"ide2=local:" + installerISO + ",media%3Dcdrom", linux + "boot\n", false},
		"asks for a yes":  {"ide2=local:" + installerISO + ",media%3Dcdrom", strings.Replace(linux, "autoinstall", "", 1) + rest, false},
		"unquoted":        {"ide2=local:" + installerISO + ",media%3Dcdrom", strings.ReplaceAll(linux, "'", "") + rest, false},
		"nobody there":    {"ide2=local:" + installerISO + ",media%3Dcdrom", strings.Replace(linux, "/'", "/nope/'", 1) + rest, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.task("POST", "/nodes/pve1/qemu", "vmid=150&memory=64&agent=1&net0=virtio,bridge%3Dvmbr0&scsi0=local-lvm:1&"+row.drives)
			c.task("POST", "/nodes/pve1/qemu/150/status/start", nil)
			if !f.spec("150").Unbooted {
				t.Error("it boots from an empty disk")
			}
			for _, r := range row.typed {
				c.ok("PUT", "/nodes/pve1/qemu/150/sendkey", "key="+keyOf(t, r))
			}
			installed := func() bool { return len(f.spec("150").Install) > 0 }
			deadline := time.Now().Add(2 * installTime)
			if row.installs {
				deadline = time.Now().Add(10 * time.Second)
			}
			for !installed() && time.Now().Before(deadline) {
				time.Sleep(5 * time.Millisecond)
			}
			if installed() != row.installs {
				t.Errorf("installed: %v", installed())
			}
			if a := c.do("POST", "/nodes/pve1/qemu/150/agent/ping", nil); (a.Status == http.StatusOK) != row.installs {
				t.Errorf("the agent: %d %s", a.Status, a.Reason)
			}
			c.task("POST", "/nodes/pve1/qemu/150/status/stop", nil)
			c.task("POST", "/nodes/pve1/qemu/150/status/start", nil)
			if f.spec("150").Unbooted == row.installs {
				t.Error("the next start does not find what is on the disk")
			}
			c.task("POST", "/nodes/pve1/qemu/150/status/stop", nil)
			c.task("DELETE", "/nodes/pve1/qemu/150", nil)
		})
	}
}

// keyOf is the key of a character.
func keyOf(t *testing.T, r rune) string {
	for key, text := range keyText {
		if text == string(r) {
			return key
		}
	}
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
		return string(r)
	}
	t.Fatalf("no key for %q", r)
	return ""
}

func TestInstallersAnswers(t *testing.T) {
	for name, row := range map[string]struct{ text, err string }{
		"good":           {goodAnswers, ""},
		"no header":      {strings.TrimPrefix(goodAnswers, "#cloud-config\n"), "the first line is not #cloud-config"},
		"nothing":        {"#cloud-config\n{}\n", "there is no autoinstall"},
		"a typing error": {strings.Replace(goodAnswers, "packages", "package", 1), "field package not found"},
		"a version":      {strings.Replace(goodAnswers, ": 1,", ": 2,", 1), "version 2, not 1"},
		"a layout":       {strings.Replace(goodAnswers, "direct", "straight", 1), `there is no layout "straight"`},
		"no SSH":         {strings.Replace(goodAnswers, "true", "false", 1), "there will be no SSH server"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readAnswers([]byte(row.text))
			if row.err == "" && (err != nil || !reflect.DeepEqual(got.packages, []string{"qemu-guest-agent"})) {
				t.Error(got, err)
			}
			if row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)) {
				t.Errorf("%v, want %s", err, row.err)
			}
		})
	}
}
