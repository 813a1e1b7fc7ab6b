// Package provider is a double of the Terraform provider bpg/proxmox 0.111.1.
//
// It serves the real plugin protocol (version 6) and sends to whatever endpoint
// it is given the requests and SSH commands that the real provider sends, in
// its order and with its encodings. It exists for machines that reach no
// provider registry; where the real provider is present it takes the double's
// place without any other change.
//
// It declares only the resources and attributes that a module for disposable
// clusters uses, with the types, defaults and replace rules of the real
// provider, and refuses the rest by schema. Hazards of the real provider are
// kept on purpose: above all, a VM create call that is repeated after a 5xx
// answer takes "already exists" for success and so adopts a foreign VM.
//
// Facts about the real provider's behaviour were observed by recording it; the
// tests replay those recordings (testdata/provider).
package provider
