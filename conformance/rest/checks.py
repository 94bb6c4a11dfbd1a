"""A check for Schemathesis: only failures of tools have the status 500."""
import schemathesis


@schemathesis.check
def failures_of_tools_only(ctx, response, case):
    if response.status_code < 500:
        return
    body = response.json()
    result = body.get("meta", {}).get("result", {})
    assert response.status_code == 500 and body["code"] == "EXECUTION_ERROR" and result.get("isError") is True, f"a server's error: {body}"
