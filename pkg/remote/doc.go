// Package remote reaches the nodes of a cluster over SSH: it runs commands and scripts, moves files, forwards
// connections and opens terminals, on one node or on all of them at once.
//
// There is one connection per node for a whole run. It is dialled when first needed, carries many sessions, and is
// dialled again once when it is found broken before a command has started; a command that has started is never
// repeated. Every command has a hard deadline. Host keys are pinned in a known_hosts file of the cluster's own, never
// the user's. Everything that goes into a shell is quoted by [Quote].
package remote
