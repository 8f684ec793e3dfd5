"""Pictures of a result, one module for each public function."""
