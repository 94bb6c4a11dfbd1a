"""A check of Schemathesis's: where tools fail with 500, that is all that does."""
import schemathesis


@schemathesis.check
def failures_of_tools_only(ctx, response, case):
    if response.status_code < 500:
        return
    body = response.json()
    result = body.get("meta", {}).get("result", {})
    assert response.status_code == 500 and body["code"] == "EXECUTION_ERROR" and result.get("isError") is True, f"a server's error: {body}"
