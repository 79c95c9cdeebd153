// The object that carries the precompiled header; see pch.h.
