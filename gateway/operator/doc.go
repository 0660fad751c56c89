// Package operator serves the operator API: the live state, decisions and
// events of a gateway, the commands of its operators, and the audit of those
// commands. It listens on a unix socket, where peer credentials name the
// caller, and, if asked to, on TCP with tokens.
//
// It decides nothing about traffic: a command is checked for who may give it
// and how it is written, audited, and handed to a Control. It never sees a
// client's request, and no request waits for it.
package operator
