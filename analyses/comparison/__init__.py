"""What changed between two reports: findings by fingerprint, measures by a test that suits them."""
