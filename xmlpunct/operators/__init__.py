"""The operators: one stream iterator per file, and the driver that runs them."""
