package provider

import (
	"context"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

const testToken = "terraform@pve!provider=11111111-2222-3333-4444-555555555555"

type object = map[string]any

// driver does to the provider what terraform does.
type driver struct {
	t       *testing.T
	ctx     context.Context // of one test
	server  tfprotov6.ProviderServer
	schemas map[string]*tfprotov6.Schema
}

// instance is a resource in the state.
type instance struct {
	kind    string
	value   *tfprotov6.DynamicValue
	private []byte
}

// newDriver configures a provider for the stage; last is the VM id that was
// given out before, or empty.
func newDriver(t *testing.T, s *stage, last string) *driver {
	t.Helper()
	env := Environment{Getenv: func(string) string { return "" }, Home: t.TempDir(), TempDir: t.TempDir()}
	ctx := background(t)
	server, err := NewServer(ctx, env)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{t: t, ctx: ctx, server: server, schemas: answer.ResourceSchemas}
	if n, err := strconv.Atoi(last); err == nil {
		file := filepath.Join(env.TempDir, "terraform-provider-proxmox-id-gen.seq")
		if err := os.WriteFile(file, []byte(strconv.Itoa(n-1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var nodes []any
	for _, n := range sortedKeys(s.nodes) {
		nodes = append(nodes, object{"name": n, "address": s.nodes[n].host, "port": s.nodes[n].port})
	}
	config := object{
		"endpoint": s.endpoint, "api_token": testToken, "insecure": true,
		"ssh": []any{object{"agent": false, "username": "root", "private_key": s.key, "node": nodes}},
	}
	res, err := server.ConfigureProvider(
		ctx, &tfprotov6.ConfigureProviderRequest{Config: d.encode(answer.Provider, config)},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, dg := range res.Diagnostics {
		t.Fatalf("configuring the provider: %s: %s", dg.Summary, dg.Detail)
	}
	return d
}

func (d *driver) encode(s *tfprotov6.Schema, m object) *tfprotov6.DynamicValue {
	d.t.Helper()
	v := blockValue(s.Block, m)
	dv, err := tfprotov6.NewDynamicValue(s.ValueType(), v)
	if err != nil {
		d.t.Fatal(err)
	}
	return &dv
}

func (d *driver) decode(kind string, dv *tfprotov6.DynamicValue) object {
	d.t.Helper()
	v, err := dv.Unmarshal(d.schemas[kind].ValueType())
	if err != nil {
		d.t.Fatal(err)
	}
	m, _ := plain(d.t, v).(object)
	return m
}

// plan proposes config for a resource that was in the state prior.
func (d *driver) plan(prior instance, config object) (*tfprotov6.PlanResourceChangeResponse, *tfprotov6.DynamicValue) {
	d.t.Helper()
	s := d.schemas[prior.kind]
	proposed := config
	if prior.value != nil {
		proposed = propose(s.Block, d.decode(prior.kind, prior.value), config)
	}
	written := d.encode(s, config)
	answer, err := d.server.PlanResourceChange(d.ctx, &tfprotov6.PlanResourceChangeRequest{
		TypeName: prior.kind, PriorState: d.prior(prior), ProposedNewState: d.encode(s, proposed), Config: written,
		PriorPrivate: prior.private,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return answer, written
}

func (d *driver) prior(i instance) *tfprotov6.DynamicValue {
	if i.value != nil {
		return i.value
	}
	return d.null(i.kind)
}

func (d *driver) null(kind string) *tfprotov6.DynamicValue {
	t := d.schemas[kind].ValueType()
	dv, err := tfprotov6.NewDynamicValue(t, tftypes.NewValue(t, nil))
	if err != nil {
		d.t.Fatal(err)
	}
	return &dv
}

// apply plans and applies; diagnostics come back as "Error: summary: detail".
func (d *driver) apply(prior instance, config object) (instance, []string) {
	d.t.Helper()
	planned, written := d.plan(prior, config)
	if texts := diagnostics(planned.Diagnostics); len(texts) > 0 {
		return prior, texts
	}
	answer, err := d.server.ApplyResourceChange(d.ctx, &tfprotov6.ApplyResourceChangeRequest{
		TypeName: prior.kind, PriorState: d.prior(prior), PlannedState: planned.PlannedState, Config: written,
		PlannedPrivate: planned.PlannedPrivate,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return instance{prior.kind, answer.NewState, answer.Private}, diagnostics(answer.Diagnostics)
}

func (d *driver) create(kind string, config object) (instance, []string) {
	d.t.Helper()
	return d.apply(instance{kind: kind}, config)
}

func (d *driver) read(i instance) (instance, []string) {
	d.t.Helper()
	answer, err := d.server.ReadResource(d.ctx, &tfprotov6.ReadResourceRequest{
		TypeName: i.kind, CurrentState: i.value, Private: i.private,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return instance{i.kind, answer.NewState, answer.Private}, diagnostics(answer.Diagnostics)
}

func (d *driver) destroy(i instance) []string {
	d.t.Helper()
	answer, err := d.server.ApplyResourceChange(d.ctx, &tfprotov6.ApplyResourceChangeRequest{
		TypeName: i.kind, PriorState: i.value, PlannedState: d.null(i.kind), Config: d.null(i.kind),
		PlannedPrivate: i.private,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return diagnostics(answer.Diagnostics)
}

func diagnostics(list []*tfprotov6.Diagnostic) (texts []string) {
	for _, dg := range list {
		severity := "Error"
		if dg.Severity == tfprotov6.DiagnosticSeverityWarning {
			severity = "Warning"
		}
		texts = append(texts, fmt.Sprintf("%s: %s%s", severity, dg.Summary, prefixed(": ", dg.Detail)))
	}
	return texts
}

// blockValue makes a value of a block's type; what m lacks is null, and an
// empty list where it is a block.
func blockValue(b *tfprotov6.SchemaBlock, m object) tftypes.Value {
	values := map[string]tftypes.Value{}
	for _, a := range b.Attributes {
		values[a.Name] = typed(a.Type, m[a.Name])
	}
	for _, n := range b.BlockTypes {
		list := []tftypes.Value{}
		items, _ := m[n.TypeName].([]any)
		for _, item := range items {
			o, _ := item.(object)
			list = append(list, blockValue(n.Block, o))
		}
		values[n.TypeName] = tftypes.NewValue(tftypes.List{ElementType: n.Block.ValueType()}, list)
	}
	return tftypes.NewValue(b.ValueType(), values)
}

func typed(t tftypes.Type, v any) tftypes.Value {
	if v == nil {
		return tftypes.NewValue(t, nil)
	}
	if v == tftypes.UnknownValue {
		return tftypes.NewValue(t, tftypes.UnknownValue)
	}
	switch t := t.(type) {
	case tftypes.List:
		list := []tftypes.Value{}
		for _, e := range v.([]any) {
			list = append(list, typed(t.ElementType, e))
		}
		return tftypes.NewValue(t, list)
	case tftypes.Object:
		o := v.(object)
		values := map[string]tftypes.Value{}
		for k, at := range t.AttributeTypes {
			values[k] = typed(at, o[k])
		}
		return tftypes.NewValue(t, values)
	}
	return tftypes.NewValue(t, v)
}

// plain is the reverse of typed.
func plain(t *testing.T, v tftypes.Value) any {
	if !v.IsKnown() {
		return tftypes.UnknownValue
	}
	if v.IsNull() {
		return nil
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	switch v.Type().(type) {
	case tftypes.List:
		var items []tftypes.Value
		must(v.As(&items))
		list := []any{}
		for _, i := range items {
			list = append(list, plain(t, i))
		}
		return list
	case tftypes.Object:
		var items map[string]tftypes.Value
		must(v.As(&items))
		o := object{}
		for k, i := range items {
			o[k] = plain(t, i)
		}
		return o
	}
	switch {
	case v.Type().Is(tftypes.String):
		var s string
		must(v.As(&s))
		return s
	case v.Type().Is(tftypes.Bool):
		var b bool
		must(v.As(&b))
		return b
	}
	n := new(big.Float)
	must(v.As(n))
	f, _ := n.Float64()
	return f
}

// propose fills what is computed and not written from the prior state, as
// terraform does before it asks for a plan.
func propose(b *tfprotov6.SchemaBlock, prior, config object) object {
	out := object{}
	for _, a := range b.Attributes {
		out[a.Name] = config[a.Name]
		if config[a.Name] == nil && a.Computed {
			out[a.Name] = prior[a.Name]
		}
	}
	for _, n := range b.BlockTypes {
		was, _ := prior[n.TypeName].([]any)
		is, _ := config[n.TypeName].([]any)
		list := []any{}
		for i, item := range is {
			o, _ := item.(object)
			if i < len(was) {
				p, _ := was[i].(object)
				o = propose(n.Block, p, o)
			}
			list = append(list, o)
		}
		out[n.TypeName] = list
	}
	return out
}

func validateRequest(d *driver, config object) *tfprotov6.ValidateResourceConfigRequest {
	return &tfprotov6.ValidateResourceConfigRequest{TypeName: vmKind, Config: d.encode(d.schemas[vmKind], config)}
}
