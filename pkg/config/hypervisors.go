package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/placement"
)

// parseHypervisors reads names, as ParseHypervisor reads each, with commas between them, or what tofu would accept as
// TF_VAR_nodes: a list of objects in HCL or JSON.
func parseHypervisors(text string) ([]placement.Hypervisor, error) {
	if !strings.ContainsAny(text, "[{") {
		return parseNames(text)
	}
	const form = `a list like [{name = "pve1", address = "10.0.0.1", datastore_id = "local-lvm"}], in HCL or JSON`
	var value cty.Value
	expression, problems := hclsyntax.ParseExpression([]byte(text), "nodes", hcl.InitialPos)
	if !problems.HasErrors() {
		value, problems = expression.Value(nil)
	}
	if problems.HasErrors() {
		return nil, fmt.Errorf("it is not %s: %s", form, firstProblem(problems))
	}
	if value.IsNull() || !value.CanIterateElements() || value.Type().IsObjectType() || value.Type().IsMapType() {
		return nil, fmt.Errorf("it is not %s", form)
	}
	raw, err := ctyjson.Marshal(value, value.Type())
	if err != nil {
		return nil, fmt.Errorf("it is not %s: %w", form, err)
	}
	return decodeHypervisors(raw)
}

func parseNames(text string) ([]placement.Hypervisor, error) {
	var list []placement.Hypervisor
	for part := range strings.SplitSeq(text, ",") {
		h, err := ParseHypervisor(part)
		if err != nil {
			return nil, fmt.Errorf("it is neither names like pve1,pve2=10.0.0.2:22 nor a list in HCL or JSON: %w", err)
		}
		list = append(list, h)
	}
	return list, nil
}

// ParseHypervisor reads NAME, NAME=ADDRESS or NAME=ADDRESS:PORT.
func ParseHypervisor(text string) (placement.Hypervisor, error) {
	name, address, _ := strings.Cut(strings.TrimSpace(text), "=")
	h := placement.Hypervisor{Name: name, Address: address}
	if _, err := cluster.ParseHostName(name); err != nil {
		return h, err
	}
	if host, port, err := net.SplitHostPort(address); err == nil {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return h, fmt.Errorf("%q: %q is no port", text, port)
		}
		h.Address, h.Port = host, int(number)
	}
	return h, nil
}

func firstProblem(problems hcl.Diagnostics) string {
	d := problems[0]
	if d.Subject == nil {
		return d.Summary
	}
	return fmt.Sprintf(
		"%s at line %d, column %d", strings.ToLower(d.Summary), d.Subject.Start.Line, d.Subject.Start.Column,
	)
}

func decodeHypervisors(raw []byte) ([]placement.Hypervisor, error) {
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.DisallowUnknownFields()
	var list []placement.Hypervisor
	if err := decoder.Decode(&list); err != nil {
		return nil,
			fmt.Errorf("a hypervisor has name, address, port, datastore_id, snippet_store and template_vmid: %w", err)
	}
	return list, nil
}

// completeHypervisors fills in what is left open and says what is wrong.
func completeHypervisors(list []placement.Hypervisor) ([]placement.Hypervisor, error) {
	complete := make([]placement.Hypervisor, len(list))
	seen := map[string]bool{}
	var problems []error
	problem := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("hypervisor "+format, args...))
	}
	for i, h := range list {
		_, nameErr := cluster.ParseHostName(h.Name)
		switch {
		case h.Name == "":
			problem("%d has no name", i+1)
		case nameErr != nil:
			problem("%d: %w", i+1, nameErr)
		case seen[h.Name]:
			problem("%s is listed twice", h.Name)
		case h.Port < 0 || h.Port > 65535:
			problem("%s: port %d is not between 1 and 65535", h.Name, h.Port)
		case h.TemplateVMID != 0 && h.TemplateVMID < 100:
			problem("%s: template_vmid %d is no VM id: they begin at 100", h.Name, h.TemplateVMID)
		}
		seen[h.Name] = true
		complete[i] = h.WithDefaults()
	}
	return complete, errors.Join(problems...)
}
