"""Page over HTTP: files, stream, recording, explanations, and access control."""
