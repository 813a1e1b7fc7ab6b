package fault

import (
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"wan":                             "link:delay=50ms,jitter=10ms,loss=0.1%,rate=100mbit",
		"LTE":                             "link:delay=100ms,jitter=30ms,loss=5%,rate=1mbit",
		"HF":                              "link:delay=2s,jitter=200ms,loss=10%,rate=9600bit",
		"flapping":                        "link:up=10s,down=5s",
		"link:loss=0.5%,delay=1500ms":     "link:delay=1.5s,loss=0.5%",
		"link:rate=2000kbit":              "link:rate=2mbit",
		"partition:1,2|3":                 "partition:1,2|3",
		"partition: 2":                    "partition:2",
		"process:pause=nats":              "process:pause=nats",
		"process:kill=daemon":             "process:kill=daemon",
		"disk:/var/lib/hive":              "disk:/var/lib/hive",
		"disk:/var/lib/hive,free=10240KB": "disk:/var/lib/hive,free=10MB",
		"disk:/,free=0":                   "disk:/",
		"clock:+60m":                      "clock:+1h",
		"clock:-30m":                      "clock:-30m",
		"power:off":                       "power:off",
	} {
		s, err := Parse(text)
		if err != nil || s.String() != want {
			t.Errorf("Parse(%q) = %v, %v; want %s", text, s, err, want)
			continue
		}
		if again, err := Parse(s.String()); err != nil || again.String() != want {
			t.Errorf("Parse(%q) = %v, %v; want the same again", s, again, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "there is no such profile",
		"wam":                          "there is no such profile",
		"net:delay=1ms":                `there is no kind "net"`,
		"link:":                        "is not KEY=VALUE",
		"link:dely=1ms":                `"dely" is not one of delay, jitter, loss, rate, up, down`,
		"link:delay=1ms,delay=2ms":     "delay is there twice",
		"link:delay=5":                 `delay: "5" is no duration`,
		"link:delay=2m":                "not between 1ms and 1m",
		"link:delay=1ms,jitter=2ms":    "jitter is more than delay",
		"link:loss=5":                  `loss: "5" is no percentage`,
		"link:loss=101%":               "is no percentage",
		"link:loss=NaN%":               "is no percentage",
		"link:rate=10":                 "is no rate",
		"link:rate=999bit":             "not between 1kbit and 100gbit",
		"link:up=1s":                   "up and down belong together",
		"link:up=1ms,down=1s":          "100ms at least",
		"partition:":                   "a group names no node",
		"partition:1|":                 "a group names no node",
		"partition:1,2|2":              "node 2 is there twice",
		"process:nats":                 "neither pause=SERVICE nor kill=SERVICE",
		"process:pause=":               "is no name of a service",
		"process:pause=../x":           "is no name of a service",
		"disk:var":                     "is no absolute path",
		"disk:/var/../etc":             "is no absolute path",
		"disk:/var,size=1":             `"size" is not one of free`,
		"disk:/var,free=1TB":           "is no size",
		"clock:1h":                     "has no sign",
		"clock:+1.5s":                  "is no step of whole seconds",
		"clock:+0s":                    "is no step of whole seconds",
		"clock:+10000h":                "is no step of whole seconds",
		"power:on":                     "neither off nor reset",
		"process:pause=nats;reboot":    "is no name of a service",
		"process:pause=nats\nkill=all": "is no name of a service",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %v; want %q", text, err, want)
			continue
		}
		form, ok := errors.AsType[*FormError](err)
		if !ok || !strings.Contains(form.Hint(), "satcom") || !strings.Contains(form.Hint(), "partition:1,2|3") {
			t.Errorf("Parse(%q): its hint does not list what there is", text)
		}
	}
}

// What the hint lists can be parsed, all of it.
func TestFormsAreFaults(t *testing.T) {
	for _, form := range strings.Fields(Forms()) {
		if _, err := Parse(form); err != nil {
			t.Error(err)
		}
	}
}
