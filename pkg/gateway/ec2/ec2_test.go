package ec2_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"hive-test/pkg/gateway/ec2"
	"hive-test/pkg/gateway/store"
	"hive-test/pkg/gateway/wire"
)

// account is a service alone with its store. Time stands still but for pass.
type account struct {
	*ec2.Service
	t  testing.TB
	do func(context.Context, string, wire.Object) (wire.Object, error) // nil: the service's

	mu  sync.Mutex
	now time.Time
}

func newAccount(t testing.TB, lag time.Duration) *account {
	kept, closeStore, err := store.OpenEmbedded(context.Background(), t.TempDir(), ec2.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeStore)
	a := &account{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	a.Service = ec2.New(ec2.Options{
		Store: kept, Region: "ap-southeast-2", Account: "000000000000", Lag: lag, Now: func() time.Time {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.now
		},
	})
	return a
}

func (a *account) pass(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = a.now.Add(d)
}

// must does an action, and proves that request and answer can be written and read.
func (a *account) must(action string, in wire.Object) wire.Object {
	a.t.Helper()
	out, err := a.try(action, in)
	if err != nil {
		a.t.Fatalf("%s %v: %v", action, in, err)
	}
	return out
}

func (a *account) try(action string, in wire.Object) (wire.Object, error) {
	a.t.Helper()
	form, err := wire.EncodeQuery(action, in)
	if err != nil {
		a.t.Fatal(err)
	}
	asked, err := wire.DecodeQuery(action, form)
	if err != nil {
		return nil, err
	}
	do := a.do
	if do == nil {
		do = a.Do
	}
	out, err := do(a.t.Context(), action, asked)
	if err == nil {
		if _, err := wire.EncodeXML(action, "request", out); err != nil {
			a.t.Fatalf("%s: %v", action, err)
		}
	}
	return out, err
}

// refused proves that an action fails with a code.
func (a *account) refused(code, action string, in wire.Object) {
	a.t.Helper()
	_, err := a.try(action, in)
	if failure, ok := errors.AsType[*wire.Error](err); !ok || failure.Code != code {
		a.t.Errorf("%s %v: %v, want %s", action, in, err, code)
	}
}

// vpc makes a VPC and returns its id.
func (a *account) vpc(cidr string) string {
	a.t.Helper()
	return a.must("CreateVpc", wire.Object{"CidrBlock": cidr}).Object("Vpc").Text("VpcId")
}

// subnet makes a subnet and returns its id.
func (a *account) subnet(vpc, cidr string) string {
	a.t.Helper()
	return a.must("CreateSubnet", wire.Object{"VpcId": vpc, "CidrBlock": cidr}).Object("Subnet").Text("SubnetId")
}

// with is a request's filter.
func with(name string, values ...string) wire.Object {
	return wire.Object{"Filters": wire.List(wire.Object{"Name": name, "Values": wire.Strings(values...)})}
}
