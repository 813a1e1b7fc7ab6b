package deploy

import (
	"context"

	"hive-test/pkg/cluster"
)

// TemplateTag marks the VMs that are templates of hive-test.
const TemplateTag = "hive-test-template"

// Template is a VM that nodes are cloned from, as Proxmox VE has it. What it was made of stands in its description.
type Template struct {
	VMRef
	Description string
	// Shared says that its disk is on storage that every hypervisor has.
	Shared bool
	// Clones are the ids of VMs whose disks need the template's: it cannot be deleted before they are.
	Clones []int
	Tags   []string
	// Away says that its hypervisor does not answer: nothing but its id, where it is and its tags are known.
	Away bool
}

// Marks are what a template is to be called, and to say of itself.
type Marks struct {
	Name        string
	Description string
	Tags        []string // beside TemplateTag
}

// Templater makes templates of VMs, and finds and deletes those of hive-test.
type Templater interface {
	// Templates lists those that carry TemplateTag, by id, as far as the token may see them, those that are Away too.
	Templates(ctx context.Context) ([]Template, error)
	// ShutDown has the guest of the node's machine switch it off, and waits for that.
	ShutDown(ctx context.Context, r *cluster.Record, node cluster.Node) error
	// ToTemplate makes a template of the node's machine, which must be ours and off, and has it say so in one request, with
	// which it is the cluster's no longer. One that is a template already is no error.
	ToTemplate(ctx context.Context, r *cluster.Record, node cluster.Node, marks Marks) error
	// CopyTemplate makes the node's machine a full copy of a template, which is never started, where the node is placed. It says
	// whose it is from its beginning.
	CopyTemplate(ctx context.Context, r *cluster.Record, node cluster.Node, from Template) error
	// DescribeTemplate changes what a template says of itself.
	DescribeTemplate(ctx context.Context, t Template, description string) error
	// ImageContent tells which image a specification names, by what its storage tells of it: its size, and when it was put there, on
	// the first of the hypervisors. It is empty where that is not to be known now.
	ImageContent(ctx context.Context, spec cluster.Spec) string
	// DeleteTemplate deletes a template, looking once more that it is one of ours.
	DeleteTemplate(ctx context.Context, t Template) error
}
