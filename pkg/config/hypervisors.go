package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"hive-test/pkg/cluster"
	"hive-test/pkg/deploy/placement"
)

// parseHypervisors reads what tofu would accept as TF_VAR_nodes: a list of objects in HCL or JSON.
func parseHypervisors(text string) ([]placement.Hypervisor, error) {
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
