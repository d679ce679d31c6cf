"""Pages of access: users, ACLs as a matrix of principals and resources, quotas, and their forms."""
