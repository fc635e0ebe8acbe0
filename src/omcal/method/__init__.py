"""The paper, equation by equation."""
