void ibv_qp_to_qp_ex(void);
void ibv_qp_to_qp_ex(void)
{
}

void __verbs_log(void);
void __verbs_log(void)
{
}

void _verbs_init_and_alloc_context(void);
void _verbs_init_and_alloc_context(void)
{
}

void ibv_read_ibdev_sysfs_file(void);
void ibv_read_ibdev_sysfs_file(void)
{
}

void verbs_register_driver_34(void);
void verbs_register_driver_34(void)
{
}

void verbs_set_ops(void);
void verbs_set_ops(void)
{
}

void verbs_uninit_context(void);
void verbs_uninit_context(void)
{
}

