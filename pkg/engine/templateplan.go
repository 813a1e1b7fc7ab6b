package engine

import (
	"context"
	"errors"

	"hive-test/pkg/config"
	"hive-test/pkg/deploy"
	"hive-test/pkg/deploy/placement"
	"hive-test/pkg/state"
	"hive-test/pkg/template"
)

// TemplatePlan is what building a template, or making copies of one, would do.
type TemplatePlan struct {
	Layer   string
	Version string // that would be built or copied
	InUse   string // the version of the layer that clusters use; empty: there is none
	// Differences are what would be made of something else than the one in use.
	Differences []template.Difference
	VMs         []deploy.VMRef // that would become templates; none: nothing would be made
	// Leftover is the cluster of an earlier run that would be removed first; empty: there is none.
	Leftover string
}

// PlanTemplateBuild returns what BuildTemplate would do. Nothing is locked and nothing is written.
func (e *Engine) PlanTemplateBuild(ctx context.Context, request BuildTemplateRequest) (TemplatePlan, error) {
	plan := TemplatePlan{Layer: request.Name}
	layer, err := buildable(request.Request)
	if err != nil {
		return plan, err
	}
	err = e.planTemplate(ctx, request.about(builderName(layer)), builderSettings(request.Settings, layer), &plan, func(s *session) error {
		s.template = templateRun{"hive-test template build " + layer.Name, layer}
		return s.ready(ctx, func() error { return s.planBuild(ctx, &plan, request.IfChanged) })
	})
	return plan, err
}

// planBuild fills in what a build would be called, and what differs from the one in use.
func (s *session) planBuild(ctx context.Context, plan *TemplatePlan, ifChanged bool) error {
	built, err := s.newIdentity(ctx)
	if err != nil {
		return err
	}
	list, _, err := s.templates(ctx, built.Layer)
	if err != nil {
		return err
	}
	if used := template.Find(list, built.Layer); len(used) > 0 {
		plan.InUse, plan.Differences = used[0].Version, differences(used[0].Inputs, built.Inputs)
	}
	err = s.nameTemplate(ctx, &built, ifChanged)
	plan.Version = built.Version
	return err
}

// PlanDistribution returns what DistributeTemplate would do. Nothing is locked and nothing is written.
func (e *Engine) PlanDistribution(ctx context.Context, request Request) (TemplatePlan, error) {
	var plan TemplatePlan
	found, err := e.FindTemplate(ctx, request)
	if err != nil {
		return plan, err
	}
	plan.Layer, plan.Version = found[0].Layer, found[0].Version
	layer := template.Layer{Name: plan.Layer, Parent: plan.Version}
	err = e.planTemplate(ctx, request.about(builderName(layer)), builderSettings(request.Settings, layer), &plan, func(s *session) error {
		s.template = templateRun{command: "hive-test template distribute " + plan.Version}
		return s.ready(ctx, func() error { return s.onHostsWithout(found) })
	})
	return plan, err
}

// planTemplate has ready place what a run of a builder would make, and fills that in. The cluster of another run may have its name.
func (e *Engine) planTemplate(
	ctx context.Context, request Request, settings config.Settings, plan *TemplatePlan, ready func(*session) error,
) error {
	name, store, err := e.storeOf(request.Name, request.Settings)
	if err != nil {
		return err
	}
	if holder, life := store.Holder(name); life == state.Alive || life == state.Elsewhere {
		return &state.LockedError{Name: name, Holder: holder, Life: life}
	}
	if _, err := store.Load(name); !errors.Is(err, state.ErrNotFound) {
		plan.Leftover = name.String()
	}
	request = request.about("planned-" + plan.Layer)
	request.Settings = settings
	_, err = e.do(ctx, templateVerb, request, func(s *session) error {
		if err := ready(s); err != nil {
			return err
		}
		for _, node := range s.Record.Nodes {
			at := placement.Of(node)
			plan.VMs = append(plan.VMs, deploy.VMRef{VMID: at.VMID, Name: plan.Version, Hypervisor: at.Hypervisor})
		}
		return nil
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// ready makes, in memory only, the record of what is asked for, has check (nil: nothing) look at it, and looks whether it can be made.
func (s *session) ready(ctx context.Context, check func() error) error {
	if problems := placement.ValidateSpec(s.Settings.Spec()); len(problems) > 0 {
		return usage(errors.Join(problems...))
	}
	if holder, life := s.Store.Holder(s.Name); life == state.Alive || life == state.Elsewhere {
		return &state.LockedError{Name: s.Name, Holder: holder, Life: life}
	}
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	if err := s.adoptOrCreate(ctx); err != nil {
		return err
	}
	if check != nil {
		if err := check(); err != nil {
			return err
		}
	}
	deployer, err := s.Deployer()
	if err != nil {
		return err
	}
	return s.prepare(ctx, deployer)
}
