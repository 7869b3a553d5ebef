from tests.ui.seed import Agency
def test_seed(agency: Agency, client_of):
    from tasks_app.approvals.models import Approval
    for a in Approval.objects.all(): print(a, a.kind, a.status, a.title, a.due_at)
    from orders.models import Deal
    for d in Deal.objects.all(): print(d, d.status, d.differs)
    r = client_of("Approver").get("/admin/")
    print(r.status_code, len(r.content))
