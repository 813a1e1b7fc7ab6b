package gateway_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hive-test/pkg/awsauth"
	"hive-test/pkg/gateway"
	"hive-test/pkg/gateway/ec2"
	"hive-test/pkg/gateway/store"
	"hive-test/pkg/gateway/wire"
	"hive-test/pkg/iac"
)

// actions do what requests ask for, not as they should.
type actions func(ctx context.Context, action string, in wire.Object) (wire.Object, error)

// Do does an action.
func (a actions) Do(ctx context.Context, action string, in wire.Object) (wire.Object, error) {
	return a(ctx, action, in)
}

// faulty is an endpoint on which something is not as the provider needs it, and what the probe is to say of it: by
// "RESOURCE PART" the verdict and the call that decides.
type faulty struct {
	faults []gateway.Fault
	spoil  func(well actions) actions
	// front is what requests and answers pass through.
	front func(http.Handler) http.Handler
	cells map[string]string
	// stuck says that what the probe waits for never comes: it is not to wait long.
	stuck bool
}

func missing(action string) []gateway.Fault {
	return []gateway.Fault{{Action: action, Code: wire.InvalidAction}}
}

func empty(action string) []gateway.Fault { return []gateway.Fault{{Action: action, Empty: true}} }

// before has requests of an action be another one.
func before(action string, change func(in wire.Object)) func(actions) actions {
	return func(well actions) actions {
		return func(ctx context.Context, asked string, in wire.Object) (wire.Object, error) {
			if asked == action {
				in = in.Clone()
				change(in)
			}
			return well(ctx, asked, in)
		}
	}
}

// after has answers to an action be other ones.
func after(action string, change func(in, out wire.Object, err error) (wire.Object, error)) func(actions) actions {
	return func(well actions) actions {
		return func(ctx context.Context, asked string, in wire.Object) (wire.Object, error) {
			out, err := well(ctx, asked, in)
			if asked == action {
				return change(in, out.Clone(), err)
			}
			return out, err
		}
	}
}

// drop takes a member away that is at a path in answers to an action.
func drop(action, path string) func(actions) actions {
	return after(action, func(_, out wire.Object, err error) (wire.Object, error) {
		dropAt(out, path)
		return out, err
	})
}

func dropAt(o wire.Object, path string) {
	name, rest, more := strings.Cut(path, ".")
	if !more {
		delete(o, name)
		return
	}
	dropAt(o.Object(name), rest)
	for _, e := range o.Objects(name) {
		dropAt(e, rest)
	}
}

// otherCode has an action answer another error than the one with a code.
func otherCode(action, code, other string) func(actions) actions {
	return after(action, func(_, out wire.Object, err error) (wire.Object, error) {
		if failure, ok := err.(*wire.Error); ok && failure.Code == code {
			return nil, wire.Errorf(other, "%s", failure.Message)
		}
		return out, err
	})
}

// Each fault turns the cells of the table that the provider's reaction to it says, to the verdict that tells why.
func TestFaults(t *testing.T) {
	kept, closeStore, err := store.OpenEmbedded(context.Background(), t.TempDir(), ec2.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeStore)
	service := ec2.New(ec2.Options{Store: kept, Region: region, Account: account, Now: time.Now})
	// There is one VPC more than each probe makes: what a filter should not find.
	if _, err := service.Do(t.Context(), "CreateVpc", wire.Object{"CidrBlock": "10.0.0.0/16"}); err != nil {
		t.Fatal(err)
	}
	rows := faultyEndpoints()
	maps.Copy(rows, brokenRules())
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if os.Getenv("HIVE_TEST_SOAK") == "" && row.isLong() {
				t.Skip("it takes many calls: with HIVE_TEST_SOAK=yes")
			}
			table := iac.Probe(t.Context(), row.serve(t, service), iac.Options{
				Patience: row.patience(), Only: row.resources(),
			})
			for cell, want := range row.cells {
				if got := cellOf(table, cell); got != want {
					t.Errorf("%s: %q, want %q", cell, got, want)
				}
			}
		})
	}
}

func (f faulty) patience() time.Duration {
	if f.stuck {
		return 400 * time.Millisecond
	}
	return 20 * time.Second
}

// isLong reports whether a row is about more than what takes few calls to make.
func (f faulty) isLong() bool {
	return f.stuck || slices.ContainsFunc(f.resources(), func(name string) bool {
		return !strings.HasPrefix(name, "data.") &&
			!slices.Contains([]string{"provider", "aws_vpc", "aws_key_pair", "aws_placement_group"}, name)
	})
}

// resources are those that the row tells of.
func (f faulty) resources() (names []string) {
	for cell := range f.cells {
		name, _, _ := strings.Cut(cell, " ")
		names = append(names, name)
	}
	return names
}

// cellOf is the verdict of "RESOURCE PART" with the call that has decided.
func cellOf(table iac.Table, cell string) string {
	name, part, _ := strings.Cut(cell, " ")
	for _, row := range table.Rows {
		if row.Resource == name {
			return strings.TrimSpace(string(row.Cells[part].Verdict) + " " + row.Cells[part].Call)
		}
	}
	return ""
}

// serve serves the actions with the row's faults.
func (f faulty) serve(t *testing.T, service *ec2.Service) iac.Endpoint {
	t.Helper()
	o := gateway.Options{
		EC2: service, Account: account, Now: time.Now,
		Secret: func(key string) (string, bool) { return secretKey, key == accessKey },
	}
	if f.spoil != nil {
		o.EC2 = f.spoil(service.Do)
	}
	if f.faults != nil {
		data, err := json.Marshal(f.faults)
		file := filepath.Join(t.TempDir(), "faults.json")
		if err == nil {
			err = os.WriteFile(file, data, 0o600)
		}
		if err == nil {
			o.Faults, err = gateway.ReadFaults(file)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	handler := gateway.Handler(o)
	if f.front != nil {
		handler = f.front(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return iac.Endpoint{
		URL: server.URL, Key: awsauth.Key{AccessKey: accessKey, SecretKey: secretKey, Region: region},
		Client: server.Client(),
	}
}
